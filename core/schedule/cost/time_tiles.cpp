#include "core/schedule/cost/time_tiles.h"

#include <algorithm>

namespace tile {
namespace {

// More of them save little: data comes from memory once for all of them, and what is done around
// edges grows with them.
constexpr int64_t kMostTrips = 16;
// The other half of the second cache is for what else a trip touches.
constexpr int64_t kCacheShare = 2;

}  // namespace

std::string print(const TimeTiles& t) {
  return std::to_string(t.trips) + " trips at a time over " + std::to_string(t.blocks()) +
         " blocks of " + std::to_string(t.block) + " of " + std::to_string(t.iterations) +
         " iterations, which reach " + std::to_string(t.reach) + " far";
}

bool is_sound(const TimeTiles& t) {
  return t.iterations >= 1 && t.reach >= 0 && t.block >= 1 && t.block <= t.iterations &&
         t.trips >= 2 && t.trips <= kMostTrips && t.reach <= t.block / (2 * t.trips);
}

std::optional<TimeTiles> time_tiles(const nest::IterationReach& reach, int64_t trips, int64_t bytes,
                                    const Target& target) {
  int64_t each = std::max<int64_t>(1, bytes / reach.iterations), cores = target.threads;
  int64_t most = target.l2_bytes / kCacheShare / each;
  if (most < 1) return std::nullopt;
  // As many rounds of a block for each core as there must be.
  int64_t round = most * cores, rounds = (reach.iterations + round - 1) / round;
  int64_t block = reach.iterations / (rounds * cores);
  if (block < 1) return std::nullopt;
  int64_t allowed = reach.reach == 0 ? kMostTrips : block / (2 * reach.reach);
  TimeTiles tiles{reach.iterations, reach.reach, block, std::min({trips, kMostTrips, allowed})};
  if (tiles.trips < 2) return std::nullopt;
  return tiles;
}

IterationSpan of_block(const TimeTiles& t, int64_t block, int64_t trip) {
  int64_t begin = block * t.block, less = trip * t.reach;
  bool last = block == t.blocks() - 1;
  return {block == 0 ? 0 : begin + less, last ? t.iterations : begin + t.block - less};
}

IterationSpan around_edge(const TimeTiles& t, int64_t edge, int64_t trip) {
  return {edge * t.block - trip * t.reach, edge * t.block + trip * t.reach};
}

double time_of_trip(const TimeTiles& tiles, double apart_ns, double cached_ns,
                    const Target& target) {
  auto trips = static_cast<double>(tiles.trips);
  double memory_ns = std::max(0.0, apart_ns - cached_ns - target.parallel_overhead_ns);
  return cached_ns + (memory_ns + 2 * target.parallel_overhead_ns) / trips;
}

}  // namespace tile
