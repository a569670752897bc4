// What one access touches while each iterator runs over a range: runs of contiguous bytes, whole
// cache lines, in rows that lie apart.
#include "core/schedule/facts/access_block.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/support/checked.h"

namespace tile {
namespace {

// [manual] "Data Prefetching": runs that are fetched ahead from behind the second cache, and where
// each is in pages of its own.
constexpr double kRuns = 16;
constexpr double kRunsOfPages = 32;
constexpr double kPage = 4096;  // bytes, the smallest page of x86-64

}  // namespace

// The prefetcher keeps so many streams, and one of each page (Intel 64 and IA-32 Architectures
// Optimization Reference Manual, "Data Prefetching").
double AccessBlock::runs_ahead() const {
  bool apart = std::all_of(row_strides.begin(), row_strides.end(),
                           [](const auto& row) { return row.second >= kPage; });
  return apart ? kRunsOfPages : kRuns;
}

// One of each page: what comes in turns from rows in one page is no stream.
double AccessBlock::runs_in_turns() const { return std::min(runs_ahead(), pages()); }

// Rows of several dimensions share the places of what divides all their strides.
double AccessBlock::depth(double way) const {
  auto bytes_of_way = static_cast<int64_t>(way);
  double distinct = 1;
  int64_t apart = bytes_of_way;
  for (auto [count, stride] : row_strides) {
    int64_t step = std::max<int64_t>(gcd(static_cast<int64_t>(stride), bytes_of_way), 1);
    distinct *= std::min(count, std::max(1.0, way / static_cast<double>(step)));
    apart = gcd(apart, step);
  }
  distinct = std::min(distinct, std::max(1.0, way / static_cast<double>(apart)));
  double covered = distinct >= rows ? way : std::min(way, run * distinct);
  return bytes() / covered;
}

// Conflicts are what makes a part of the cache unusable: here they are counted.
double AccessBlock::occupied(double way) const {
  return std::max(bytes(), kUsableCache * way * depth(way));
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
