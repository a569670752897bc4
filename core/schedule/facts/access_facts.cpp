#include "core/schedule/facts/access_facts.h"

#include <algorithm>
#include <cmath>

namespace tile {
namespace {

// Where data decide on an index, each point reads no more than a line of its own.
void limit_to_points(AccessBlock& block, const AccessFacts& a, Range range) {
  double points = a.times;
  for (int64_t n : range) points *= static_cast<double>(n);
  if (points * kCacheLine >= block.run * block.rows) return;
  double size = static_cast<double>(a.bytes);
  for (int64_t n : a.shape) size *= static_cast<double>(n);
  block.run = block.exact = kCacheLine;
  block.rows = points;
  block.row_strides.assign(1, {points, std::max(kCacheLine, size / points)});
}

}  // namespace

bool are_near(const AccessFacts& a, const AccessFacts& b, Range range) {
  if (a.access->tensor != b.access->tensor) return false;
  double stride = a.bytes;
  for (size_t d = a.shape.size(); d-- > 0;) {
    const Index &i = a.access->index[d], &j = b.access->index[d];
    bool values = i.value >= 0 || j.value >= 0;
    if (values && (i.value < 0 || j.value < 0 || !a.moves[d] || a.moves[d] != b.moves[d])) {
      return false;
    }
    Affine apart = i.affine - j.affine;
    if (!values && !apart.is_constant()) return false;
    double span = 1;
    for (size_t u = 0; u < range.size() && !values; ++u) {
      span += std::abs(i.affine.coefficient(u).floor()) * static_cast<double>(range[u] - 1);
    }
    double distance = values ? 0 : std::abs(static_cast<double>(apart.constant.floor()));
    if (distance >= span && distance * stride >= kCacheLine) return false;
    stride *= static_cast<double>(std::max<int64_t>(a.shape[d], 1));
  }
  return true;
}

AccessBlock AccessFacts::block(Range range) const {
  AccessBlock touched;
  double stride = bytes;
  bool contiguous = true;
  for (size_t d = shape.size(); d-- > 0;) {
    auto extent = static_cast<double>(std::max<int64_t>(shape[d], 1));
    double span = decided[d] ? extent : 1;
    for (auto [u, step] : steps[d]) span += step * static_cast<double>(range[u] - 1);
    span = std::min(span, extent);
    // Rows closer than a line, such as one component of each pixel, share their lines.
    bool dense = contiguous || (touched.rows == 1 && stride < kCacheLine);
    if (dense) {
      touched.run = std::max(touched.run, stride * span);
    } else if (span > 1) {
      touched.rows *= span;
      touched.row_strides.emplace_back(span, stride);
    }
    contiguous = contiguous && span >= extent;
    stride *= extent;
  }
  touched.exact = touched.run;
  if (gathers) limit_to_points(touched, *this, range);
  bool rounded = touched.rows > 1;
  if (rounded) touched.run = std::max(touched.run, kCacheLine);
  return touched;
}

double AccessFacts::packed_bytes(Range range) const {
  double all = bytes;
  for (size_t u = 0; u < range.size(); ++u) {
    if (strides[u] != 0) all *= static_cast<double>(range[u]);
  }
  return all;
}

double AccessFacts::distinct_part(size_t parallel_dim, int64_t rows, size_t reduction,
                                  int64_t taps) const {
  int64_t row = std::abs(strides[parallel_dim]), tap = std::abs(strides[reduction]);
  if (row == 0 || rows * taps <= 1) return 1;
  // (x, t) and (x + tap, t - row), in units of what both strides are multiples of, are one element.
  int64_t unit = gcd(row, tap);
  int64_t same = std::max<int64_t>(0, rows - tap / unit) * std::max<int64_t>(0, taps - row / unit);
  return 1 - static_cast<double>(same) / static_cast<double>(rows * taps);
}

bool AccessFacts::turns(IteratorId vector, size_t rows) const {
  if (!vector.valid() || IteratorId(rows) == vector || store || gathers) return false;
  return strides[rows] == 1 && std::abs(strides[vector]) > kLanesTogether;
}

}  // namespace tile
