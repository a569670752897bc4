#include "tests/distribute/random_products.h"

#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"
#include "tests/random/random_source.h"

namespace tile::test {
namespace {

// A factor or a result: its extents' names and the indices that walk it.
struct Operand {
  std::string name;
  std::vector<std::string> extents, indices;
};

class ProductDrawing {
 public:
  ProductDrawing(uint64_t seed, bool exact) : random_(seed), exact_(exact) {}

  RandomProducts run() {
    draw_mesh();
    draw_form();
    std::string body;
    int64_t contractions = random_.in(1, 3);
    for (int64_t c = 0; c < contractions; ++c) body += contraction(c);
    RandomProducts drawn;
    std::string outputs;
    for (const std::string& name : outputs_) outputs += (outputs.empty() ? "" : ", ") + name;
    std::string text = "function (" + declared(a_) + ", " + declared(b_) + ") -> (" + outputs +
                       ") {\n" + body + "}";
    drawn.source = std::make_shared<const Program>(
        parse_tile(std::make_shared<const Source>(Source{"test.tile", text})));
    std::vector<InputType> types;
    for (const Operand* factor : {&a_, &b_}) {
      Shape shape;
      for (const std::string& extent : factor->extents) shape.push_back(extent_[extent[0] - 'A']);
      types.push_back({type_, shape});
      drawn.inputs.push_back(values(shape));
    }
    drawn.program = tile::bind(*drawn.source, types);
    drawn.mesh = mesh_;
    drawn.layouts = layouts_;
    return drawn;
  }

 private:
  void draw_mesh() {
    const std::vector<int64_t> sizes =
        random_.pick<std::vector<int64_t>>({{2}, {2}, {3}, {4}, {5}, {8}, {2, 2}, {2, 3}, {4, 2}});
    const char* names = "xy";
    for (size_t a = 0; a < sizes.size(); ++a) {
      mesh_ += (a == 0 ? "" : ", ") + std::string(1, names[a]) + "=" + std::to_string(sizes[a]);
      axes_.push_back(std::string(1, names[a]));
    }
  }

  void draw_form() {
    type_ = random_.pick<DType>({DType::f32, DType::f32, DType::bf16, DType::i32});
    for (int64_t& extent : extent_) extent = random_.in(1, 13);
    switch (random_.in(0, 3)) {
      case 0:  // batches
        a_ = {"A", {"G", "M", "K"}, {"g", "i", "k"}};
        b_ = {"B", {"G", "K", "N"}, {"g", "k", "j"}};
        c_ = {"C", {"G", "M", "N"}, {"g", "i", "j"}};
        break;
      case 1:  // a filter along rows, whose borders are zero
        a_ = {"A", {"M", "L", "K"}, {"i", "l + r - 1", "k"}};
        b_ = {"B", {"R", "K", "N"}, {"r", "k", "j"}};
        c_ = {"C", {"M", "L", "N"}, {"i", "l", "j"}};
        extent_['R' - 'A'] = 3;
        break;
      default:
        a_ = {"A", {"M", "K"}, {"i", "k"}};
        b_ = {"B", {"K", "N"}, {"k", "j"}};
        c_ = {"C", {"M", "N"}, {"i", "j"}};
    }
    name_layout(a_, random_.percent(70) ? "" : "k");
    name_layout(b_, random_.percent(70) ? "" : "k");
  }

  static std::string listed(const std::vector<std::string>& parts) {
    std::string text;
    for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
    return text;
  }
  static std::string declared(const Operand& o) { return o.name + "[" + listed(o.extents) + "]"; }
  static std::string walked(const Operand& o) { return o.name + "[" + listed(o.indices) + "]"; }

  // Every axis cuts some dimension, with luck that which is named.
  void name_layout(const Operand& o, const std::string& index) {
    std::vector<std::string> dims(o.extents.size(), "*");
    for (const std::string& axis : axes_) {
      auto at = static_cast<size_t>(random_.in(0, static_cast<int64_t>(dims.size()) - 1));
      for (size_t d = 0; d < dims.size() && !index.empty(); ++d) {
        if (o.indices[d] == index) at = d;
      }
      if (random_.percent(85)) dims[at] = dims[at] == "*" ? axis : dims[at] + "." + axis;
    }
    layouts_ += o.name + "[" + listed(dims) + "] ";
  }

  std::string contraction(int64_t number) {
    Operand result = c_;
    result.name += std::to_string(number);
    const char* aggregation = random_.pick<const char*>({"+", "+", "+", ">", "<"});
    const char* joins = random_.percent(80) ? " * " : " + ";
    std::string text = "  " + result.name + "[" + listed(result.indices) + ": " +
                       listed(result.extents) + "] = " + aggregation + "(" + walked(a_) + joins +
                       walked(b_) + ");\n";
    name_layout(result, "");
    if (random_.percent(50)) layouts_ += result.name + ": k=" + axes_[0] + " ";
    std::string last = result.name;
    while (random_.percent(40)) {
      std::string next = "E" + std::to_string(elementwise_++);
      const char* what = random_.pick<const char*>({"max(%, 0)", "% * 3 - 1", "% + %"});
      std::string line = what;
      for (size_t at; (at = line.find('%')) != std::string::npos;) line.replace(at, 1, last);
      text += "  " + next + " = " + line + ";\n";
      Operand like = result;
      like.name = next;
      if (random_.percent(30)) name_layout(like, "");
      last = next;
    }
    outputs_.push_back(last);
    return text;
  }

  HostTensor values(const Shape& shape) {
    HostTensor t(type_, shape);
    for (int64_t i = 0; i < t.count(); ++i) {
      double value = static_cast<double>(random_.in(-2, 2));
      if (!exact_ && is_float(type_)) value = static_cast<double>(random_.in(-9999, 9999)) / 1777;
      t.set(i, convert(real_scalar(value, DType::f64), type_));
    }
    return t;
  }

  RandomSource random_;
  bool exact_;
  std::string mesh_, layouts_;
  std::vector<std::string> axes_, outputs_;
  Operand a_, b_, c_;
  DType type_ = DType::f32;
  int64_t extent_[26] = {};
  int64_t elementwise_ = 0;
};

}  // namespace

std::string RandomProducts::text() const {
  return "mesh " + mesh + "\n" + layouts + "\n" + source->source->text;
}

RandomProducts random_products(uint64_t seed, bool exact) {
  return ProductDrawing(seed, exact).run();
}

}  // namespace tile::test
