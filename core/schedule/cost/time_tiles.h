// Blocks in space and time of a loop whose every trip is one parallel loop over the state: several
// trips are done block by block, while the block's cells are in a core's cache. Split tiling: T.
// Grosser, A. Cohen, P. Kelly, J. Ramanujam, P. Sadayappan, S. Verdoolaege, "Split Tiling for
// GPUs", GPGPU-6 (2013); on CPUs as "trapezoids" since M. Frigo, V. Strumpen, ICS (2005).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/nest/iteration_reach.h"
#include "core/target/target.h"

namespace tile {

// `trips` trips at a time over blocks of `block` iterations (the last takes what is left, too):
// first every block by itself, each trip `reach` iterations less at the edges that it shares with
// another block; then what lies around each such edge, each trip so much more. Both times blocks
// are independent. block >= 2 * trips * reach, so that what grows around two edges does not meet.
struct TimeTiles {
  int64_t iterations = 0;  // of the parallel loop
  int64_t reach = 0;
  int64_t block = 1;
  int64_t trips = 2;
  int64_t blocks() const { return iterations / block; }
  friend bool operator==(const TimeTiles&, const TimeTiles&) = default;
};

// "16 trips at a time over 4 blocks of 32 of 128 iterations, which reach 1 far"
std::string print(const TimeTiles& tiles);
// Whether the numbers mean something together: for those that come from a record.
bool is_sound(const TimeTiles& tiles);

// The largest blocks whose cells, with `bytes` for all iterations, stay in a core's second cache,
// each core having as many; as many trips as they allow. nullopt: not even two trips, or not a
// block for each core.
std::optional<TimeTiles> time_tiles(const nest::IterationReach& reach, int64_t trips, int64_t bytes,
                                    const Target& target);

// Iterations [begin, end) that trip number `trip` of those at a time does: of a block by itself,
// and around the edge before block `edge` >= 1, from trip 1 on.
struct IterationSpan {
  int64_t begin = 0, end = 0;
};
IterationSpan of_block(const TimeTiles& tiles, int64_t block, int64_t trip);
IterationSpan around_edge(const TimeTiles& tiles, int64_t edge, int64_t trip);

// Nanoseconds of a trip: `apart_ns` is that of a trip by itself, `cached_ns` that of one whose data
// is in the second cache, without starting threads.
double time_of_trip(const TimeTiles& tiles, double apart_ns, double cached_ns,
                    const Target& target);

}  // namespace tile
