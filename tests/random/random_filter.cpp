#include "tests/random/random_filter.h"

#include "tests/random/random_source.h"

namespace tile::test {
namespace {

constexpr int kLargestDepth = 4;
constexpr int kMostLoops = 2;  // inside each other

// A tensor that an earlier pass made.
struct Pass {
  std::string name;  // of the tensor or of a sampler of it
  int rank = 2;
  int components = 1;
  bool rows = false;  // of rank 1: one for each row
};

class Writer {
 public:
  explicit Writer(uint64_t seed) : random_(seed) {}

  FilterPasses write_passes() {
    FilterPasses result;
    result.text =
        "@param_i32 r(SLIDER, label=\"r\", min=1, max=4, init=2)\n"
        "@param_f32 p(SLIDER, label=\"p\", min=0.5, max=4.0, init=1.3)\n"
        "let s = sampler<input_f32>(address=.ClampToEdge)\n"
        "let b = sampler<input_f32>(address=.ClampToBorderValue, border_value=0.25)\n";
    int64_t count = random_.in(1, 4);
    for (int64_t i = 0; i < count; ++i) {
      std::string name = "t" + std::to_string(i);
      result.text += pass(name);
      if (random_.percent(30)) result.outputs.push_back(name);
    }
    result.text += "def result_f32 |x, y| { " + value(3) + " }\n";
    result.outputs.emplace_back("result_f32");
    return result;
  }

  std::string write() {
    std::string text =
        "@param_i32 r(SLIDER, label=\"r\", min=1, max=4, init=2)\n"
        "@param_f32 p(SLIDER, label=\"p\", min=0.5, max=4.0, init=1.3)\n"
        "let s = sampler<input_f32>(address=.ClampToEdge)\n"
        "let b = sampler<input_f32>(address=.ClampToBorderValue, border_value=0.25)\n";
    if (random_.percent(50)) {
      std::string first = value(2), second = value(1);
      text +=
          "@bounds(input_f32.extent(0), input_f32.extent(1))\n"
          "def t |x, y| { [" +
          first + ", " + second + "] }\n";
      has_tuple_ = true;
    }
    return text + "def result_f32 |x, y| { " + value(kLargestDepth) + " }\n";
  }

 private:
  // "@bounds(...) def NAME |x, y| { ... }", and perhaps a sampler of it.
  std::string pass(const std::string& name) {
    const std::string w = "input_f32.extent(0)", h = "input_f32.extent(1)";
    Pass made{name};
    std::string bounds, body, indices = "x, y";
    int64_t kind = random_.in(0, 9);
    if (kind < 6) {
      static const std::vector<std::string> kSizes = {"", "", "/2 + 1", " + 2", "*2"};
      bounds = w + random_.pick(kSizes) + ", " + h + random_.pick(kSizes);
      made.components = random_.percent(50) ? 1 : static_cast<int>(random_.in(2, 4));
      body = tuple(made.components);
    } else if (kind < 9) {
      made.rank = 1;
      made.rows = random_.percent(50);
      bounds = made.rows ? h : w;
      indices = made.rows ? "y" : "x";
      body = statistic(made.rows ? w : h, made.rows ? "x" : "y");
    } else {
      made.rank = 1;
      bounds = "1";
      indices = "x";
      body = passes_.empty() ? "p" : total();
    }
    passes_.push_back(made);
    std::string text =
        "@bounds(" + bounds + ")\ndef " + name + " |" + indices + "| { " + body + " }\n";
    if (made.rank == 2 && made.components == 1 && random_.percent(50)) {
      bool clamps = random_.percent(50);
      text += "let s" + name + " = sampler<" + name + ">(address=." +
              (clamps ? "ClampToEdge)\n" : "ClampToBorderValue, border_value=-0.5)\n");
      passes_.push_back({"s" + name});
    }
    return text;
  }
  std::string tuple(int components) {
    if (components == 1) return value(2);
    std::string text;
    for (int c = 0; c < components; ++c) text += (c == 0 ? "[" : ", ") + value(c == 0 ? 2 : 1);
    return text + "]";
  }
  std::string statistic(const std::string& extent, const std::string& index) {
    if (random_.percent(60))
      return "rsum(0..<" + extent + ")|" + index + "| { " + value(1) + " }*0.1";
    return "reduce(init=-8.0, 0..<" + extent + ")|" + index + ", m| { max(m, " + value(1) + ") }";
  }
  std::string total() {
    const Pass& of = passes_[0];
    if (of.rank != 2 || of.components != 1) return "p";
    return of.name + ".sum|i, j, e| { e*0.05 }";
  }
  std::string element_of(const Pass& of) {
    std::string at = of.rank == 2 ? place("x") + ", " + place("y") : place(of.rows ? "y" : "x");
    std::string component(1, "xyzw"[random_.in(0, of.components - 1)]);
    return of.name + "(" + at + ")" + (of.components > 1 ? "." + component : "");
  }

  std::string place(const std::string& from) {
    std::string at = from;
    if (!counters_.empty() && random_.percent(70)) at += "+" + random_.pick(counters_);
    if (random_.percent(30)) at += random_.percent(50) ? "-1" : "+r";
    return at;
  }
  std::string element() {
    if (!passes_.empty() && random_.percent(55)) return element_of(random_.pick(passes_));
    std::string x = place("x"), y = place("y");
    if (has_tuple_ && random_.percent(40)) {
      return "t(" + x + ", " + y + ")" + (random_.percent(50) ? ".x" : ".y");
    }
    return std::string(random_.percent(70) ? "s" : "b") + "(" + x + ", " + y + ")";
  }
  std::string leaf() {
    if (random_.percent(15)) return "p";
    if (random_.percent(10)) return "0.75";
    if (!counters_.empty() && random_.percent(10))
      return "f32(" + random_.pick(counters_) + ")*0.3";
    return element();
  }
  std::string range() {
    std::vector<std::string> ranges = {"0..<r", "-r..<r+1", "0..<x+1", "y..<r+2", "0..<3"};
    if (counters_.empty()) ranges.push_back("0..<34");
    if (!counters_.empty()) ranges.push_back("0..<" + counters_.back() + "+1");
    return random_.pick(ranges);
  }

  std::string value(int depth) {
    if (depth <= 0) return leaf();
    bool loops = static_cast<int>(counters_.size()) < kMostLoops;
    int64_t form = random_.in(0, loops ? 10 : 7);
    if (form == 0) return leaf();
    if (form == 8) return sum(depth);
    if (form > 8) return fold(depth);
    std::string a = value(depth - 1);
    if (form == 4) return "sin(" + a + ")";
    if (form == 7) return "(" + a + "/(1.5 + " + leaf() + "^2))";
    std::string b = value(depth - 2);
    switch (form) {
      case 1:
        return "(" + a + " + " + b + ")";
      case 2:
        return "(" + a + " - " + b + ")";
      case 3:
        return "0.5*" + a + "*" + b;
      case 5:
        return "max(" + a + ", " + b + ")";
      default: {
        std::string left = leaf(), right = leaf();
        return "ifel(" + left + " > " + right + ", " + a + ", " + b + ")";
      }
    }
  }

  std::string counter() {
    counters_.push_back("i" + std::to_string(names_++));
    return counters_.back();
  }
  std::string sum(int depth) {
    std::string ranges = range();
    bool two = counters_.empty() && random_.percent(30);
    if (two) ranges += ", -1..<r";
    std::string names = counter();
    if (two) names += ", " + counter();
    std::string head = "rsum(" + ranges + ")|" + names + "| { ";
    bool tuple = random_.percent(40);
    std::string first = value(depth - 1), second = tuple ? value(depth - 2) : "";
    std::string body = tuple ? "[" + first + ", " + second + "] }" : first + " }";
    counters_.resize(counters_.size() - (two ? 2 : 1));
    return head + body + (tuple ? random_.percent(50) ? ".x" : ".y" : "") + "*0.2";
  }
  std::string fold(int depth) {
    bool tuple = random_.percent(40);
    std::string init = leaf(), other = tuple ? leaf() : "";
    std::string head =
        "reduce(init=" + (tuple ? "[" + init + ", " + other + "]" : init) + ", " + range() + ")|";
    head += counter();
    std::string a = "a" + std::to_string(names_++);
    head += ", " + a + "| { ";
    std::string x = tuple ? a + ".x" : a, y = tuple ? a + ".y" : a;
    std::string first = step(x, y, depth), second = tuple ? step(y, x, depth) : "";
    counters_.pop_back();
    return "(" + head + (tuple ? "[" + first + ", " + second + "] }.x" : first + " }") + ")";
  }
  std::string step(const std::string& own, const std::string& other, int depth) {
    std::string v = value(depth - 2);
    switch (random_.in(0, 6)) {
      case 0:
        return own + " + 0.3*" + v;
      case 1:
        return "max(" + own + ", " + v + ")";
      case 2:
        return own + "*(1.0 + 0.1*sin(" + v + "))";
      case 3:
        return "sin(" + own + ") + 0.4*" + other + "*cos(" + v + ")";
      case 4:
        return "0.5*" + other + " + " + v;
      case 5:
        return "ifel(" + own + " > 0.4, 0.6*" + own + ", " + other + " + " + v + ")";
      default:
        return "0.25*sin(" + own + ")*sin(" + other + ") + cos(" + v + ")";
    }
  }

  RandomSource random_;
  std::vector<std::string> counters_;
  int names_ = 0;
  bool has_tuple_ = false;
  std::vector<Pass> passes_;
};

Shape shape_of(const Tensor& t, const Shape& picture) {
  if (t.parameter) {
    auto count = static_cast<int64_t>(t.parameter->init.size());
    return count > 1 ? Shape{count} : Shape{};
  }
  if (t.dims.size() == 1) return {picture[1]};
  Shape shape = picture;
  if (t.dims.size() == 3) shape.push_back(4);
  return shape;
}

double element(RandomSource& random, const Tensor& t, bool real, int64_t i) {
  if (t.parameter) {
    double init = t.parameter->init[static_cast<size_t>(i)];
    return real ? init * (1 + 0.05 * random.unit()) + 0.01 : init;
  }
  if (!real) return static_cast<double>(random.in(0, 255));
  double size = 0.3 + 1.2 * random.unit();
  return random.percent(40) ? -size : size;
}

}  // namespace

std::string random_filter(uint64_t seed) { return Writer(seed).write(); }
FilterPasses random_passes(uint64_t seed) { return Writer(seed ^ 0x70617373).write_passes(); }

std::vector<HostTensor> filter_inputs(uint64_t seed, const Program& program, const Shape& picture,
                                      bool wide) {
  RandomSource random(seed);
  std::vector<HostTensor> inputs;
  for (TensorId id : program.inputs) {
    const Tensor& t = program.tensors[id];
    DType type = t.type.value_or(DType::f32);
    bool real = is_float(type);
    if (real) type = wide ? DType::f64 : DType::f32;
    HostTensor value(type, shape_of(t, picture));
    for (int64_t i = 0; i < value.count(); ++i)
      value.set(i, real_scalar(element(random, t, real, i), type));
    inputs.push_back(std::move(value));
  }
  return inputs;
}

}  // namespace tile::test
