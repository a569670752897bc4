#include "tests/distribute/random_stencils.h"

#include <algorithm>

#include "core/autodiff/differentiate.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"
#include "tests/distribute/random_layouts.h"
#include "tests/random/random_source.h"

namespace tile::test {
namespace {

// Along one dimension: the result's cell i reads `stride` * i + `dilation` * a - `back`, 0 <= a <
// `taps`.
struct Taps {
  int64_t stride = 1, dilation = 1, back = 0, taps = 1;
  int64_t reach() const { return dilation * (taps - 1); }
};

class StencilDrawing {
 public:
  explicit StencilDrawing(uint64_t seed) : random_(seed) {}

  RandomStencils run(uint64_t seed) {
    shape_.resize(static_cast<size_t>(random_.in(1, 3)));
    const int64_t kMost[] = {90, 24, 11};  // cells of a dimension, by the number of them
    for (int64_t& extent : shape_) extent = random_.in(1, kMost[shape_.size() - 1]);
    std::vector<Shape> shapes{shape_};
    int64_t steps = random_.in(1, 4);
    bool weighted = random_.percent(30);
    if (weighted) shapes.push_back(shape_);
    for (int64_t s = 0; s < steps; ++s) step(weighted && s == 0);
    finish(weighted);
    return made(seed, shapes);
  }

 private:
  std::string next() { return "T" + std::to_string(++tensors_); }

  // The extent that is left.
  int64_t drawn_taps(int64_t extent, Taps& taps) {
    taps.taps = random_.pick<int64_t>({1, 2, 3, 3, 5});
    taps.dilation = random_.percent(25) ? random_.in(2, 4) : 1;
    taps.stride = random_.percent(15) ? 2 : 1;
    bool whole = random_.percent(50);  // as many cells as there were, over the ends
    int64_t left = whole ? extent : extent - taps.reach();
    if (left < 1) {
      taps = {};
      left = extent;
    }
    if (whole) taps.back = random_.in(0, taps.reach());
    return (left + taps.stride - 1) / taps.stride;
  }

  void step(bool weighted) {
    std::string from, constraints, cells, extents;
    int64_t terms = 1;
    const char *outer = "ijk", *inner = "abc";
    for (size_t d = 0; d < shape_.size(); ++d) {
      Taps taps;
      // Few terms, so that sums of four steps are small integers.
      int64_t extent = drawn_taps(shape_[d], taps);
      if (terms * taps.taps > 9) taps = {1, 1, 0, 1}, extent = shape_[d];
      terms *= taps.taps;
      std::string i(1, outer[d]), a(1, inner[d]);
      std::string index = (taps.stride == 1 ? "" : std::to_string(taps.stride) + "*") + i;
      if (taps.taps > 1) {
        index += " + " + std::to_string(taps.dilation) + "*" + a;
        constraints += ", " + a + " < " + std::to_string(taps.taps);
      }
      if (taps.back != 0) index += " - " + std::to_string(taps.back);
      from += (d == 0 ? "" : ", ") + index;
      cells += (d == 0 ? "" : ", ") + i;
      extents += (d == 0 ? "" : ", ") + std::to_string(extent);
      shape_[d] = extent;
    }
    bool sums = weighted || derived_ || random_.percent(70);
    std::string load = last_ + "[" + from + "]", result = next();
    if (weighted) load += " * W[" + from + "]";
    body_ += "  " + result + "[" + cells + ": " + extents + "] = " + (sums ? "+" : ">") + "(" +
             load + ")" + constraints + ";\n";
    last_ = result;
    while (random_.percent(30)) elementwise();
  }

  void elementwise() {
    std::string result = next();
    std::vector<std::string> forms{last_ + " + 2", "3 - " + last_};
    if (!derived_) forms.insert(forms.end(), {"max(" + last_ + ", 0)", "min(" + last_ + ", 3)"});
    body_ += "  " + result + " = " + random_.pick(forms) + ";\n";
    last_ = result;
  }

  void finish(bool weighted) {
    outputs_ = last_;
    if (random_.percent(30)) {  // needs no other rank's cells where it lies as A does
      body_ += "  Q = A + A;\n";
      outputs_ += ", Q";
    }
    std::string dims;
    for (size_t d = 0; d < shape_.size(); ++d)
      dims += (d == 0 ? "" : ", ") + std::string(1, "MNL"[d]);
    text_ = "function (A[" + dims + "]" + (weighted ? ", W[" + dims + "]" : "") + ") -> (" +
            outputs_ + ") {\n" + body_ + "}\n";
  }

  // Rules for what is out of range, in place of leaving such points out.
  void draw_rules(BoundProgram& program) {
    for (BoundStatement& statement : program.statements) {
      auto* c = std::get_if<Contraction>(&statement);
      if (c == nullptr || !random_.percent(60)) continue;
      for (Piece& piece : c->pieces) {
        for (Access& load : piece.loads) {
          for (Index& index : load.index) {
            index.boundary =
                random_.pick<Boundary>({Boundary::in_range, Boundary::clamp, Boundary::mirror,
                                        Boundary::wrap, Boundary::constant});
          }
        }
      }
    }
  }

  RandomStencils made(uint64_t seed, const std::vector<Shape>& shapes) {
    RandomStencils result;
    DType type = random_.pick<DType>({DType::f32, DType::f32, DType::f64, DType::i32});
    auto text = std::make_shared<const Source>(Source{"stencils.tile", text_});
    Program source = parse_tile(text);
    if (derived_) type = DType::f64;
    std::vector<InputType> types;
    for (const Shape& shape : shapes) types.push_back({type, shape});
    if (derived_) {
      source = differentiate(source, last_, {"A"});
      types.push_back({type, shape_});
    }
    result.source = std::make_shared<const Program>(std::move(source));
    result.program = tile::bind(*result.source, types);
    if (!derived_) draw_rules(result.program);
    verify(result.program);
    for (const InputType& input : types) {
      HostTensor& values = result.inputs.emplace_back(type, input.shape);
      for (int64_t i = 0; i < values.count(); ++i) {
        values.set(i, real_scalar(static_cast<double>(random_.in(-3, 3)), type));
      }
    }
    RandomLayouts layouts = random_layouts(result.program, seed, false);
    result.mesh = layouts.mesh;
    result.layouts = layouts.layouts;
    return result;
  }

  RandomSource random_;
  const bool derived_ = random_.percent(15);  // the gradient, too
  Shape shape_;                               // of the last tensor
  std::string last_ = "A", body_, outputs_, text_;
  int tensors_ = 0;
};

}  // namespace

std::string RandomStencils::text() const {
  return "mesh " + mesh + "\n" + layouts + print(program);
}

RandomStencils random_stencils(uint64_t seed) { return StencilDrawing(seed).run(seed); }

}  // namespace tile::test
