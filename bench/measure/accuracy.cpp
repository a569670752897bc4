#include "bench/measure/accuracy.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "bench/measure/training.h"
#include "core/ir/scalar.h"

namespace tile::bench {
namespace {

// Changes of inputs that are tried. Few sums are near zero, so that one alone may pass none of
// them.
constexpr uint32_t kChanges = 4;
// As many sums as pass zero in one change may be several times as many in another.
constexpr double kTimesMoved = 4;
// Results that may be half as far from f64's as those are long would say nothing.
constexpr double kMost = 0.5;

std::shared_ptr<Engine> cpu() {
  EngineOptions options;
  options.backend = "cpu";
  return Engine::create(options);
}

void put(const std::vector<Tensor>& from, const std::vector<Tensor>& to) {
  for (size_t i = 0; i < from.size(); ++i) {
    std::memcpy(to[i].data(), from[i].data(), from[i].bytes());
  }
}

// Roundings to f32, each half a unit in the last place at most, add up like steps of a random walk.
double roundings(const std::vector<Tensor>& inputs) {
  double terms = 1;
  for (const Tensor& t : inputs) terms = std::max(terms, terms_of(t.shape()));
  return std::ldexp(std::sqrt(terms), -24);
}

}  // namespace

Case in_f64(const Case& c) {
  Case wide = c;
  auto workload = std::make_shared<Workload>(*c.workload);
  workload->floats = DType::f64;
  if (workload->optimiser) {
    auto optimiser = std::make_shared<Workload>(*workload->optimiser);
    optimiser->floats = DType::f64;
    workload->optimiser = optimiser;
  }
  wide.workload = workload;
  for (auto& [name, type] : wide.shapes) {
    if (type.type == DType::f32) type.type = DType::f64;
  }
  return wide;
}

std::vector<Tensor> in_f64(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> list;
  for (const Tensor& t : tensors) {
    DType type = is_float(t.type()) ? DType::f64 : t.type();
    Tensor& wide = list.emplace_back(InputType{type, t.shape()});
    size_t step = byte_size(t.type()), wide_step = byte_size(type);
    for (size_t i = 0; i < t.bytes() / step; ++i) {
      Scalar value = load_element(t.elements<std::byte>() + i * step, t.type());
      store_element(wide.elements<std::byte>() + i * wide_step, convert(value, type));
    }
  }
  return list;
}

Exact::Exact(const Prepared& f32)
    : prepared_(cpu(), in_f64(f32.what())),
      inputs_(in_f64(f32.inputs())),
      change_(roundings(inputs_)) {
  put(inputs_, prepared_.inputs());
  prepared_.run();
  results_ = in_f64(prepared_.outputs());
}

Prepared::Difference Exact::off(const std::vector<Tensor>& results) const {
  return prepared_.differences(in_f64(results), results_);
}

Prepared::Difference Exact::moved() const {
  Prepared::Difference most;
  for (uint32_t seed = 1; seed <= kChanges; ++seed) {
    run_with_changed_inputs(seed);
    Prepared::Difference now = prepared_.differences(prepared_.outputs(), results_);
    if (now.most > most.most) most = now;
  }
  return most;
}

double limit_of(const Prepared& f32, double moved) {
  return std::max(tolerance_of(f32), std::min(kTimesMoved * moved, kMost));
}

// A weight's next value is without what the weight itself was changed by. The inputs are put back.
void Exact::run_with_changed_inputs(uint32_t seed) const {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> change(-change_, change_);
  for (const Tensor& t : prepared_.inputs()) {
    size_t count = t.type() == DType::f64 ? t.bytes() / sizeof(double) : 0;
    for (size_t i = 0; i < count; ++i) t.elements<double>()[i] *= 1 + change(random);
  }
  prepared_.run();
  for (size_t i = 0; i < results_.size(); ++i) {
    std::optional<size_t> weight = prepared_.replaced(i);
    if (!weight) continue;
    auto* next = prepared_.outputs()[i].elements<double>();
    const auto* changed = prepared_.inputs()[*weight].elements<double>();
    const auto* before = inputs_[*weight].elements<double>();
    for (size_t j = 0; j < results_[i].bytes() / sizeof(double); ++j) {
      next[j] -= changed[j] - before[j];
    }
  }
  put(inputs_, prepared_.inputs());
}

}  // namespace tile::bench
