// The space of schedules of one piece on a CPU: aligned candidates, built from the extents and the
// target.
#pragma once

#include <cstddef>
#include <vector>

#include "core/kernel/schedule.h"

namespace tile {

struct RankedPiece {
  double nanoseconds = 0;
  PieceSchedule schedule;
};
// How many register tiles, the best by their own cycles, get loops around them, and how many of
// those blocks for the caches.
struct Breadth {
  size_t tiles = 8;
  size_t blocked = 6;
};
constexpr Breadth kWholeSpace{size_t{1} << 20, size_t{1} << 20};
// Legal candidates, best first by the model; never empty.
std::vector<RankedPiece> piece_candidates(const Kernel& kernel, size_t stage, size_t piece,
                                          const Target& target, const Breadth& breadth = {});

}  // namespace tile
