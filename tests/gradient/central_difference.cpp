#include "tests/gradient/central_difference.h"

#include <algorithm>
#include <cmath>

#include "core/autodiff/differentiate.h"
#include "core/passes/bind/bind.h"

namespace tile::test {
namespace {

double number(const HostTensor& t, int64_t i) { return convert(t.at(i), DType::f64).f; }

double inner_product(const HostTensor& a, const HostTensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) sum += number(a, i) * number(b, i);
  return sum;
}
double inner_magnitude(const HostTensor& a, const HostTensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) sum += std::abs(number(a, i) * number(b, i));
  return sum;
}

size_t position(const std::vector<TensorId>& ids, const Program& program, const std::string& name) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (program.tensors[ids[i]].name == name) return i;
  }
  throw std::runtime_error("no tensor " + name);
}

// The change of <output, seed> along a direction of one input.
class Differences {
 public:
  Differences(const GradientCheck& check, HostTensor seed)
      : check_(check),
        seed_(std::move(seed)),
        output_(position(check.program.outputs, check.program, check.of)) {}

  // Fourth order; `spread` is how far the two second-order differences inside it are apart.
  double along(size_t input, const HostTensor& direction, double h, double& spread) const {
    double near = (value(input, direction, h) - value(input, direction, -h)) / (2 * h);
    double far = (value(input, direction, 2 * h) - value(input, direction, -2 * h)) / (4 * h);
    spread = std::abs(near - far);
    return (4 * near - far) / 3;
  }

 private:
  double value(size_t input, const HostTensor& direction, double step) const {
    std::vector<HostTensor> moved = check_.inputs;
    HostTensor& t = moved[input];
    for (int64_t i = 0; i < t.count(); ++i) {
      t.set(i, real_scalar(number(t, i) + step * number(direction, i), DType::f64));
    }
    return inner_product(outputs_of(check_.program, moved)[output_], seed_);
  }

  const GradientCheck& check_;
  HostTensor seed_;
  size_t output_;
};

Agreement compare_input(const Differences& differences, size_t input, const HostTensor& gradient,
                        const HostTensor& direction, std::string& report) {
  double generated = inner_product(gradient, direction);
  double scale = std::max(1.0, inner_magnitude(gradient, direction));
  if (!std::isfinite(generated)) return Agreement::undecided;
  bool converges = false;
  for (double h : {1e-3, 1e-4, 1e-5}) {
    double spread = 0;
    double measured = differences.along(input, direction, h, spread);
    if (std::abs(measured - generated) <= 1e-6 * scale) return Agreement::agrees;
    converges = spread <= 1e-4 * scale;
    report = "generated " + std::to_string(generated) + ", measured " + std::to_string(measured);
  }
  return converges ? Agreement::differs : Agreement::undecided;
}

}  // namespace

std::vector<HostTensor> outputs_of(const Program& program, const std::vector<HostTensor>& inputs) {
  std::vector<InputType> types;
  for (const HostTensor& t : inputs) types.push_back({t.type, t.shape});
  BoundProgram bound = tile::bind(program, types);
  verify(bound);
  return interpret(bound, inputs).outputs;
}

HostTensor random_reals(RandomSource& random, const Shape& shape) {
  HostTensor t(DType::f64, shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    double size = 0.3 + 1.2 * random.unit();
    t.set(i, real_scalar(random.percent(40) ? -size : size, DType::f64));
  }
  return t;
}

Agreement compare_with_differences(const GradientCheck& check, RandomSource& random,
                                   std::string& report) {
  Program derived = differentiate(check.program, check.of, check.wrt);
  size_t output = position(check.program.outputs, check.program, check.of);
  HostTensor seed = random_reals(random, outputs_of(check.program, check.inputs)[output].shape);
  std::vector<HostTensor> inputs = check.inputs;
  inputs.push_back(seed);
  std::vector<HostTensor> results = outputs_of(derived, inputs);
  Differences differences(check, seed);
  Agreement worst = Agreement::agrees;
  for (size_t k = 0; k < check.wrt.size(); ++k) {
    size_t input = position(check.program.inputs, check.program, check.wrt[k]);
    const HostTensor& gradient = results[check.program.outputs.size() + k];
    if (gradient.shape != check.inputs[input].shape) {
      report = "the gradient of " + check.wrt[k] + " has another shape";
      return Agreement::differs;
    }
    HostTensor direction = random_reals(random, gradient.shape);
    std::string found;
    Agreement one = compare_input(differences, input, gradient, direction, found);
    if (one > worst) {
      worst = one;
      report = "gradient of " + check.wrt[k] + ": " + found;
    }
  }
  return worst;
}

}  // namespace tile::test
