#include "bench/measure/tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "core/ir/scalar.h"

namespace tile::bench {

Tensor::Tensor(InputType type) : type_(std::move(type)) {
  constexpr size_t kAlignment = 64;
  bytes_ = static_cast<size_t>(element_count(type_.shape)) * byte_size(type_.type);
  size_t size = (bytes_ / kAlignment + 1) * kAlignment;
  memory_.reset(std::aligned_alloc(kAlignment, size));
  if (!memory_) throw std::bad_alloc();
  std::memset(memory_.get(), 0, size);
}

void fill(Tensor& tensor, uint32_t seed, double low, double high, int bits) {
  uint32_t state = seed * 2654435761U + 1;
  size_t size = byte_size(tensor.type());
  auto* at = tensor.elements<std::byte>();
  for (size_t i = 0; i < tensor.bytes(); i += size) {
    state = state * 1664525U + 1013904223U;
    double value = is_float(tensor.type())
                       ? low + (high - low) * std::ldexp(state >> (32 - bits), -bits)
                       : static_cast<double>(state >> 25);
    store_element(at + i, real_scalar(value, tensor.type()));
  }
}

namespace {

double integer_difference(const Tensor& got, const Tensor& expected, double share) {
  std::vector<double> all;
  for (size_t i = 0; i < got.bytes(); i += byte_size(got.type())) {
    auto a = static_cast<double>(load_element(got.elements<std::byte>() + i, got.type()).i);
    auto b = static_cast<double>(load_element(expected.elements<std::byte>() + i, got.type()).i);
    all.push_back(std::abs(a - b));
  }
  if (all.empty()) return 0;
  size_t apart =
      std::min(static_cast<size_t>(share * static_cast<double>(all.size())), all.size() - 1);
  auto at = all.end() - 1 - static_cast<std::ptrdiff_t>(apart);
  std::nth_element(all.begin(), at, all.end());
  return *at;
}

double element(const Tensor& t, size_t byte) {
  return load_element(t.elements<std::byte>() + byte, t.type()).f;
}

bool one_is_nan(double a, double b) { return std::isnan(a) != std::isnan(b); }

double float_difference(const Tensor& got, const Tensor& expected) {
  double largest = 0, magnitude = std::numeric_limits<double>::min();
  for (size_t i = 0; i < got.bytes(); i += byte_size(got.type())) {
    double a = element(got, i), b = element(expected, i);
    if (one_is_nan(a, b)) return std::numeric_limits<double>::infinity();
    if (std::isnan(a)) continue;
    if (a != b) largest = std::max(largest, std::abs(a - b));
    magnitude = std::max(magnitude, std::abs(b));
  }
  return largest / magnitude;
}

}  // namespace

double difference(const Tensor& got, const Tensor& expected, double share) {
  if (got.type() != expected.type() || got.shape() != expected.shape()) {
    return std::numeric_limits<double>::infinity();
  }
  if (!is_float(got.type())) return integer_difference(got, expected, share);
  return float_difference(got, expected);
}

double difference_of_change(const Tensor& got, const Tensor& expected, const Tensor& before) {
  for (const Tensor* t : {&got, &before}) {
    if (t->type() != expected.type() || t->shape() != expected.shape() || !is_float(t->type())) {
      return std::numeric_limits<double>::infinity();
    }
  }
  double apart = 0, moved = std::numeric_limits<double>::min();  // squares
  for (size_t i = 0; i < got.bytes(); i += byte_size(got.type())) {
    double a = element(got, i), b = element(expected, i), c = element(before, i);
    if (one_is_nan(a, b)) return std::numeric_limits<double>::infinity();
    if (std::isnan(a)) continue;
    apart += (a - b) * (a - b);
    moved += (b - c) * (b - c);
  }
  return std::sqrt(apart / moved);
}

std::vector<TensorView> views(std::span<const Tensor> tensors) {
  std::vector<TensorView> list;
  for (const Tensor& t : tensors) list.push_back(t.view());
  return list;
}

}  // namespace tile::bench
