#include "bench/measure/training.h"

#include <algorithm>
#include <cmath>

#include "core/autodiff/differentiate.h"
#include "core/language/tile/tile.h"

namespace tile::bench {
namespace {

bool among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Between the first `from` and the next `to` in a text that our own printer made.
std::string between(const std::string& text, const std::string& from, const std::string& to) {
  size_t begin = text.find(from), end = text.find(to, begin);
  if (begin == std::string::npos || end == std::string::npos) {
    throw InternalError("a program's text without \"" + from + "\"");
  }
  begin += from.size();
  return text.substr(begin, end - begin);
}

std::string inputs_in(const std::string& text) { return between(text, "function (", ") -> ("); }
std::string statements_in(const std::string& text) {
  size_t begin = text.find("{\n"), end = text.rfind('}');
  return text.substr(begin + 2, end - begin - 2);
}

// The optimiser's program, its inputs sorted by what they are.
struct Optimiser {
  explicit Optimiser(const Workload& workload) : program(parse_tile(workload.source)) {
    for (TensorId id : program.inputs) {
      const tile::Tensor& t = program.tensors[id];
      if (weight.empty()) {
        weight = t.name;
      } else if (gradient.empty()) {
        gradient = t.name;
      } else {
        (t.ranked ? shared : states).push_back(t.name);
      }
    }
    if (gradient.empty() || program.outputs.size() != 1 + states.size()) {
      fail(Stage::run, "file", {},
           workload.source->name +
               ": an optimiser has a weight, its gradient and states, and the next of each but the "
               "gradient");
    }
  }

  Program program;
  std::string weight, gradient;
  std::vector<std::string> states, shared;
};

// Puts the text of a step together.
class Composer {
 public:
  Composer(const Workload& workload, TrainingStep& step)
      : workload_(workload), step_(step), optimiser_(*workload.optimiser) {}

  std::string compose(const Program& forward) {
    std::string text = print(differentiate(forward, workload_.loss, step_.weights));
    inputs_ = inputs_in(text);
    // The last input is the seed, a scalar.
    inputs_.resize(inputs_.rfind(", "));
    outputs_ = workload_.loss;
    step_.replaced = {""};
    // A literal alone is of f32, and what is computed of it and integers would be. Losses are so
    // wide at least.
    size_t bits = 8 * std::max(byte_size(DType::f32), byte_size(workload_.floats));
    std::string one = "as_float(1.0, " + std::to_string(bits) + ")";
    std::string statements = "  D" + workload_.loss + " = " + one + ";\n" + statements_in(text);
    for (TensorId id : forward.inputs) {
      const tile::Tensor& t = forward.tensors[id];
      if (is_weight(workload_, t.name)) statements += update(t);
    }
    for (const std::string& name : optimiser_.shared) input(name + "[]", name, name);
    for (TensorId id : optimiser_.program.inputs) {
      step_.arguments.push_back(optimiser_.program.tensors[id].name);
    }
    step_.states = optimiser_.states;
    step_.shared = optimiser_.shared;
    return "function (" + inputs_ + ") -> (" + outputs_ + ") {\n" + statements + "}\n";
  }

 private:
  void input(const std::string& declaration, const std::string& name, const std::string& own) {
    inputs_ += ", " + declaration;
    step_.from[name] = own;
  }

  // The optimiser's statements with names for this weight.
  std::string update(const tile::Tensor& weight) {
    Program own = optimiser_.program;
    for (tile::Tensor& t : own.tensors) {
      if (t.name == optimiser_.weight) {
        t.name = weight.name;
      } else if (t.name == optimiser_.gradient) {
        t.name = "D" + weight.name;
      } else if (!among(optimiser_.shared, t.name)) {
        t.name = weight.name + "_" + t.name;
      }
    }
    step_.replaced.push_back(weight.name);
    for (const std::string& state : optimiser_.states) {
      std::string name = weight.name + "_" + state;
      input(name + sizes(weight), name, state);
      step_.replaced.push_back(name);
    }
    for (TensorId id : own.outputs) outputs_ += ", " + own.tensors[id].name;
    return statements_in(print(own));
  }

  static std::string sizes(const tile::Tensor& tensor) {
    std::string text;
    for (const Expr& dim : tensor.dims) text += (text.empty() ? "" : ", ") + to_string(dim);
    return "[" + text + "]";
  }

  const Workload& workload_;
  TrainingStep& step_;
  Optimiser optimiser_;
  std::string inputs_, outputs_;
};

}  // namespace

bool is_weight(const Workload& workload, const std::string& input) {
  return !workload.data.empty() && !among(workload.data, input);
}

TrainingStep training_step(const Workload& workload) {
  Program forward = parse(workload.language, workload.source);
  TrainingStep step;
  for (TensorId id : forward.inputs) {
    const std::string& name = forward.tensors[id].name;
    if (is_weight(workload, name)) step.weights.push_back(name);
  }
  while (step.loss < forward.outputs.size() &&
         forward.tensors[forward.outputs[step.loss]].name != workload.loss) {
    ++step.loss;
  }
  std::string text = Composer(workload, step).compose(forward);
  std::string name = workload.source->name + ", a training step";
  step.program = parse_tile(std::make_shared<Source>(Source{name, std::move(text)}));
  return step;
}

double terms_of(const Shape& weight) {
  if (weight.empty() || weight.back() == 0) return 1;
  auto terms = static_cast<double>(element_count(weight) / weight.back());
  return std::max(terms, 1.0);
}

Draw::Draw(const Workload& workload) : workload_(workload) {
  if (workload.optimiser) optimisers_ = training_step(workload).from;
}

Workload::Range Draw::range(const std::string& input, const Shape& shape) const {
  Workload::Range range = bounds(input, shape);
  // As many bits as f32 has: where few values are drawn, windows have equal largest ones, and a
  // gain of zero makes a whole channel equal. Gradients are shared among those here, and the first
  // one's elsewhere.
  if (!workload_.data.empty()) range.bits = 24;
  return range;
}

Workload::Range Draw::bounds(const std::string& input, const Shape& shape) const {
  auto own = optimisers_.find(input);
  bool optimisers = own != optimisers_.end();
  const Workload& of = optimisers ? *workload_.optimiser : workload_;
  if (auto it = of.ranges.find(optimisers ? own->second : input); it != of.ranges.end()) {
    return it->second;
  }
  if (optimisers || !is_weight(workload_, input) || shape.size() < 2) return {};
  // A power of two: what is drawn is exact.
  double most = std::exp2(std::round(-std::log2(terms_of(shape)) / 2));
  return {-most, most};
}

}  // namespace tile::bench
