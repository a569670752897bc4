// What one access touches of its tensor, as memory sees it.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace tile {

constexpr double kCacheLine = 64;  // bytes, of x86-64 and most others
// Of a cache, what data find again: the rest is lost to conflicts and to others. An estimate.
constexpr double kUsableCache = 0.75;

using Range = std::span<const int64_t>;  // how many values each iterator takes

// `rows` runs of `run` contiguous bytes; for each dimension of rows their count and distance in
// bytes.
struct AccessBlock {
  double run = 0;    // whole cache lines
  double exact = 0;  // the bytes asked for
  double rows = 1;
  std::vector<std::pair<double, double>> row_strides;

  double bytes() const { return run * rows; }
  // Bytes of a cache that it occupies where rows fall on the same sets: `way` bytes map to
  // different sets.
  double occupied(double way) const;
  // Of a set that it falls on, the ways that its lines take.
  double depth(double way) const;
  double pages() const;
  // Of the rows, how many the second cache's prefetcher follows; the same where each is read a few
  // bytes at a time, in turns with the others.
  double runs_ahead() const;
  double runs_in_turns() const;
};

}  // namespace tile
