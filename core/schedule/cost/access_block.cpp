// What one access touches while each iterator runs over a range: runs of contiguous bytes, whole
// cache lines, in rows that lie apart.
#include "core/schedule/cost/access_block.h"

#include <algorithm>
#include <cmath>

#include "core/schedule/cost/cost.h"

namespace tile {
namespace {

constexpr double kShortRunBytes = 32;  // [race] (cost_cycles.h) what starting a run of lines costs
// [manual] "Data Prefetching": runs that are fetched ahead from behind the second cache, and where
// each is in pages of its own.
constexpr double kRuns = 16;
constexpr double kRunsOfPages = 32;
constexpr double kPage = 4096;  // bytes, the smallest page of x86-64

// Where data decide on an index, each point reads no more than a line of its own.
void limit_to_points(AccessBlock& block, const PieceModel::AccessModel& a, Range range) {
  double points = a.times;
  for (int64_t n : range) points *= static_cast<double>(n);
  if (points * kCacheLine >= block.run * block.rows) return;
  double size = static_cast<double>(a.bytes);
  for (int64_t n : a.shape) size *= static_cast<double>(n);
  block.run = block.exact = kCacheLine;
  block.rows = points;
  block.row_strides.assign(1, {points, std::max(kCacheLine, size / points)});
}

// Whether two accesses of a tensor are at a distance inside the block.
bool near(const PieceModel::AccessModel& a, const PieceModel::AccessModel& b, Range range) {
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

}  // namespace

AccessBlock PieceModel::block_of(const AccessModel& a, Range range) {
  AccessBlock block;
  double stride = a.bytes;
  bool contiguous = true;
  for (size_t d = a.shape.size(); d-- > 0;) {
    auto extent = static_cast<double>(std::max<int64_t>(a.shape[d], 1));
    double span = a.decided[d] ? extent : 1;
    for (auto [u, step] : a.steps[d]) span += step * static_cast<double>(range[u] - 1);
    span = std::min(span, extent);
    // Rows closer than a line, such as one component of each pixel, share their lines.
    bool dense = contiguous || (block.rows == 1 && stride < kCacheLine);
    if (dense) {
      block.run = std::max(block.run, stride * span);
    } else if (span > 1) {
      block.rows *= span;
      block.row_strides.emplace_back(span, stride);
    }
    contiguous = contiguous && span >= extent;
    stride *= extent;
  }
  block.exact = block.run;
  if (a.gathers) limit_to_points(block, a, range);
  bool rounded = block.rows > 1;
  if (rounded) block.run = std::max(block.run, kCacheLine);
  return block;
}

bool PieceModel::shares_lines(size_t access, Range range) const {
  const AccessModel& a = accesses_[access];
  for (size_t i = 0; i < access; ++i) {
    const AccessModel& other = accesses_[i];
    if (other.store == a.store && near(a, other, range)) return true;
  }
  return false;
}

double PieceModel::fetch_ns(const AccessModel& a, Range range, double rate) const {
  AccessBlock block = block_of(a, range);
  double translated = block.pages();
  double walks =
      translated > target_.core.translations ? translated * target_.core.page_walk_ns : 0;
  return block.rows * (block.run + (block.rows > 1 ? kShortRunBytes : 0)) / rate + walks;
}

double PieceModel::uses_of(const AccessModel& a) const {
  double points = 1;
  for (int64_t extent : piece_.box) points *= static_cast<double>(extent);
  AccessBlock block = block_of(a, piece_.box);
  return points / std::max(1.0, block.exact * block.rows / a.bytes);
}

double PieceModel::packed_bytes(const AccessModel& a, Range range) {
  double bytes = a.bytes;
  for (size_t u = 0; u < range.size(); ++u) {
    if (a.strides[u] != 0) bytes *= static_cast<double>(range[u]);
  }
  return bytes;
}

// The prefetcher keeps so many streams, and one of each page (Intel 64 and IA-32 Architectures
// Optimization Reference Manual, "Data Prefetching").
double AccessBlock::runs_ahead() const {
  bool apart = std::all_of(row_strides.begin(), row_strides.end(),
                           [](const auto& row) { return row.second >= kPage; });
  return apart ? kRunsOfPages : kRuns;
}

// Rows of several dimensions share the places of what divides all their strides.
double AccessBlock::occupied(double way) const {
  auto bytes_of_way = static_cast<int64_t>(way);
  double distinct = 1;
  int64_t apart = bytes_of_way;
  for (auto [count, stride] : row_strides) {
    int64_t step = std::max<int64_t>(gcd(static_cast<int64_t>(stride), bytes_of_way), 1);
    distinct *= std::min(count, std::max(1.0, way / static_cast<double>(step)));
    apart = gcd(apart, step);
  }
  distinct = std::min(distinct, std::max(1.0, way / static_cast<double>(apart)));
  double covered = std::min(way, run * distinct);
  // Conflicts are what makes a part of the cache unusable: here they are counted.
  return distinct >= rows ? bytes() : bytes() * std::max(1.0, kUsableCache * way / covered);
}

double AccessBlock::pages() const {
  double count = std::max(1.0, run / kPage), gap = run;
  for (auto [n, stride] : row_strides) {
    count *= stride >= kPage ? n : std::max(1.0, n * stride / kPage);
    gap = std::max(gap, n * stride);
  }
  return std::min(count, std::max(1.0, gap / kPage) + 1);
}

}  // namespace tile
