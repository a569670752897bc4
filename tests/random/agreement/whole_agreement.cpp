#include "tests/random/agreement/whole_agreement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "core/interpret/interpret.h"
#include "core/passes/bind/bind.h"
#include "tests/random/agreement/double_precision.h"
#include "tests/random/random_source.h"

namespace tile::test {
namespace {

constexpr int kPerturbations = 3;
// Roundings inside add up to some times what one rounding of each input does.
constexpr double kAmplified = 100;
// By how much results of statements are moved, relative: as inputs are.
constexpr double kRoundingOfResults = 0x1p-22;
// Of the reference's own rounding errors, as double precision shows them, other orders make.
constexpr double kRoundedAlike = 16;

double number(const HostTensor& t, int64_t i) { return convert(t.at(i), DType::f64).f; }

double largest_of(const HostTensor& t) {
  double largest = 0;
  for (int64_t i = 0; i < t.count(); ++i) largest = std::max(largest, std::fabs(number(t, i)));
  return largest;
}
bool finite(const HostTensor& t) {
  for (int64_t i = 0; i < t.count(); ++i) {
    if (!std::isfinite(number(t, i))) return false;
  }
  return true;
}

// Of the results' own type, and of f32 arithmetic on the way.
double tolerance_of(DType type) {
  if (is_f8(type)) return type == DType::f8e4m3 ? 0x1p-3 : 0x1p-2;
  return type == DType::bf16 ? 0x1p-6 : type == DType::f16 ? 0x1p-9 : 2e-5;
}

std::string difference_at(size_t output, int64_t i, const Scalar& expected, const Scalar& got) {
  auto shown = [](const Scalar& value) {
    return is_float(value.type) ? std::to_string(value.f) : std::to_string(value.i);
  };
  return "output " + std::to_string(output) + ", element " + std::to_string(i) + ": expected " +
         shown(expected) + ", got " + shown(got);
}

// The real inputs moved by a rounding of f32, or, where they are narrower, taken for f32 first.
std::vector<HostTensor> moved_inputs(const WholeCase& drawn, int number) {
  RandomSource random(static_cast<uint64_t>(number));
  std::vector<HostTensor> inputs = drawn.drawn.inputs;
  for (HostTensor& t : inputs) {
    if (!is_float(t.type)) continue;
    HostTensor moved(std::max(t.type, DType::f32), t.shape);
    for (int64_t i = 0; i < t.count(); ++i) {
      double by = (random.unit() - 0.5) * 0x1p-21;
      moved.set(i, real_scalar(t.at(i).f * (1 + by), moved.type));
    }
    t = std::move(moved);
  }
  return inputs;
}

std::set<std::string> real_tensors(const WholeCase& drawn) {
  std::set<std::string> names;
  BoundProgram bound = tile::bind(*drawn.program, types_for(drawn, drawn.drawn.inputs));
  for (const BoundTensor& t : bound.tensors) {
    if (is_float(t.type)) names.insert(t.name);
  }
  return names;
}

// The largest distance between two results, for each output.
void add_distances(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b, double times,
                   std::vector<double>& distances) {
  for (size_t o = 0; o < a.size(); ++o) {
    for (int64_t i = 0; i < a[o].count(); ++i) {
      double by = times * std::fabs(number(a[o], i) - number(b[o], i));
      distances[o] = by <= distances[o] ? distances[o] : by;  // NaN too
    }
  }
}

}  // namespace

std::vector<InputType> types_for(const WholeCase& drawn, const std::vector<HostTensor>& inputs) {
  std::vector<InputType> types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    types.push_back({inputs[i].type, inputs[i].shape, drawn.drawn.types[i].value});
  }
  return types;
}

WholeCase in_double(WholeCase drawn) {
  for (HostTensor& t : drawn.drawn.inputs) {
    if (!is_float(t.type)) continue;
    HostTensor wide(DType::f64, t.shape);
    for (int64_t i = 0; i < t.count(); ++i) wide.set(i, real_scalar(t.at(i).f, DType::f64));
    t = std::move(wide);
  }
  drawn.program = std::make_shared<const Program>(in_double(*drawn.program));
  return drawn;
}

std::vector<HostTensor> evaluated(const WholeCase& drawn, const std::vector<HostTensor>& inputs) {
  return interpret(tile::bind(*drawn.program, types_for(drawn, inputs)), inputs).outputs;
}

Expectation::Expectation(const WholeCase& drawn, Evaluate evaluate)
    : drawn_(drawn),
      evaluate_(std::move(evaluate)),
      outputs_(evaluate_(drawn, drawn.drawn.inputs)) {}

void Expectation::perturb() const {
  std::vector<double> moved(outputs_.size(), 0);
  auto add = [&](const WholeCase& drawn, const std::vector<HostTensor>& inputs, double times) {
    try {
      add_distances(evaluate_(drawn, inputs), outputs_, times, moved);
    } catch (const Failure&) {  // types that do not go together
    }
  };
  std::set<std::string> reals = real_tensors(drawn_);
  for (int n = 0; n < kPerturbations; ++n) {
    add(drawn_, moved_inputs(drawn_, n), kAmplified);
    WholeCase moved_results = drawn_;
    moved_results.program = std::make_shared<const Program>(
        with_moved_results(*drawn_.program, reals, kRoundingOfResults, static_cast<uint64_t>(n)));
    add(moved_results, drawn_.drawn.inputs, kAmplified);
  }
  WholeCase wide = in_double(drawn_);
  add(wide, wide.drawn.inputs, kRoundedAlike);
  moved_ = std::move(moved);
}

double Expectation::moved(size_t output) const {
  if (!moved_) perturb();
  return (*moved_)[output];
}

std::string Expectation::exact_difference(size_t output, const HostTensor& got) const {
  const HostTensor& expected = outputs_[output];
  for (int64_t i = 0; i < got.count(); ++i) {
    Scalar a = expected.at(i), b = got.at(i);
    bool same = same_value(a, b) || (is_float(a.type) && a.f == b.f);
    if (!same) return difference_at(output, i, a, b);
  }
  return "";
}

// Sums that overflow depend on the order of their terms: results with such are not compared.
std::string Expectation::rounded_difference(size_t output, const HostTensor& got) const {
  const HostTensor& expected = outputs_[output];
  if (!finite(expected)) return "";
  double allowed = tolerance_of(got.type) * std::max(largest_of(expected), 1e-3);
  for (int64_t i = 0; i < got.count(); ++i) {
    double by = std::fabs(number(expected, i) - number(got, i));
    if (by <= allowed) continue;
    if (by <= allowed + moved(output) || !std::isfinite(moved(output))) continue;
    return difference_at(output, i, expected.at(i), got.at(i)) + " (may move by " +
           std::to_string(moved(output)) + ")";
  }
  return "";
}

std::string Expectation::disagreement(const std::vector<HostTensor>& got) const {
  if (outputs_.size() != got.size()) return "another number of outputs";
  for (size_t o = 0; o < got.size(); ++o) {
    if (outputs_[o].type != got[o].type || outputs_[o].shape != got[o].shape) {
      return "output " + std::to_string(o) + ": another type or shape";
    }
    bool exact = drawn_.exact[o] || !is_float(got[o].type);
    std::string wrong = exact ? exact_difference(o, got[o]) : rounded_difference(o, got[o]);
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace tile::test
