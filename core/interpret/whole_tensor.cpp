#include "core/interpret/whole_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace tile {
namespace {

// NaN after every number.
bool before(const Scalar& a, const Scalar& b) {
  if (is_float(a.type)) {
    if (std::isnan(a.f) || std::isnan(b.f)) return !std::isnan(a.f) && std::isnan(b.f);
    return a.f < b.f;
  }
  if (a.type == DType::u64) return static_cast<uint64_t>(a.i) < static_cast<uint64_t>(b.i);
  return a.i < b.i;
}

// The number of elements after dimension d.
int64_t stride_of(const Shape& shape, size_t d) {
  int64_t stride = 1;
  for (size_t i = d + 1; i < shape.size(); ++i) stride *= shape[i];
  return stride;
}

void sort_line(const Sort& sort, const HostTensor& source, HostTensor& result, int64_t start,
               int64_t stride, int64_t length) {
  std::vector<int64_t> order(static_cast<size_t>(length));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return before(source.at(start + a * stride), source.at(start + b * stride));
  });
  for (int64_t k = 0; k < length; ++k) {
    int64_t from = order[static_cast<size_t>(k)];
    Scalar value =
        sort.indices ? integer_scalar(from, DType::i64) : source.at(start + from * stride);
    result.set(start + k * stride, convert(value, result.type));
  }
}

int64_t clamped(const Scalar& index, int64_t size) {
  if (index.type == DType::u64 && index.i < 0) return size - 1;
  return std::clamp<int64_t>(index.i, 0, size - 1);
}

}  // namespace

void run_sort(const Sort& sort, const HostTensor& source, HostTensor& result) {
  if (source.count() == 0) return;
  auto axis = static_cast<size_t>(sort.axis);
  int64_t length = result.shape[axis], stride = stride_of(result.shape, axis);
  for (int64_t outer = 0; outer < source.count() / (length * stride); ++outer) {
    for (int64_t inner = 0; inner < stride; ++inner) {
      sort_line(sort, source, result, outer * length * stride + inner, stride, length);
    }
  }
}

void run_scatter(const Scatter&, const HostTensor& updates, const HostTensor& indices,
                 HostTensor& result) {
  if (result.count() == 0 || updates.count() == 0) return;
  int64_t rows = result.shape[0], width = result.count() / rows;
  DType accumulator = compute_type(result.type);
  std::vector<Scalar> sums(static_cast<size_t>(result.count()), integer_scalar(0, accumulator));
  for (int64_t i = 0; i < indices.count(); ++i) {
    int64_t row = clamped(indices.at(i), rows);
    for (int64_t r = 0; r < width; ++r) {
      Scalar& sum = sums[static_cast<size_t>(row * width + r)];
      std::array<Scalar, 2> pair{sum, convert(updates.at(i * width + r), accumulator)};
      sum = evaluate(Op::add, accumulator, pair);
    }
  }
  for (int64_t at = 0; at < result.count(); ++at) {
    result.set(at, convert(sums[static_cast<size_t>(at)], result.type));
  }
}

}  // namespace tile
