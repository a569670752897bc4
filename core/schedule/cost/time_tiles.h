// Blocks in space and time of a loop whose every trip is parallel loops over the state: several
// trips are done block by block, while the block's cells are in a core's cache. Split tiling: T.
// Grosser, A. Cohen, P. Kelly, J. Ramanujam, P. Sadayappan, S. Verdoolaege, "Split Tiling for
// GPUs", GPGPU-6 (2013); on CPUs as "trapezoids" since M. Frigo, V. Strumpen, ICS (2005).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/nest/iteration_reach.h"
#include "core/target/target.h"

namespace tile {

// One dimension of the grid of iterations.
struct TiledDimension {
  int64_t iterations = 1;
  // How far an iteration reaches into what others have made, in one turn.
  int64_t reach = 0;
  bool wraps = false;  // the first and the last iteration are neighbours
  int64_t blocks = 1;
  // Edges between blocks, where there is something to be done afterwards.
  int64_t edges() const { return wraps ? blocks : blocks - 1; }
  // The first iteration of a block; of number `blocks`: the end.
  int64_t cut(int64_t block) const;
  friend bool operator==(const TiledDimension&, const TiledDimension&) = default;
};

// `turns` turns at a time. A turn is a trip, or of a trip whose kernels read each other's results,
// what one after the other does. First every block by itself, each turn `reach` iterations less at
// the edges that it shares with another block; then what lies around each such edge, each turn so
// much more. With two dimensions that is done of one inside the other: four phases. The pieces of a
// phase are independent, and two states are enough. Blocks have 2 * (turns - 1) * reach iterations
// at least, so that what grows around two edges does not meet.
struct TimeTiles {
  std::vector<TiledDimension> dimensions;  // one or two
  int64_t turns = 2;

  size_t phases() const { return size_t{1} << dimensions.size(); }
  int64_t pieces(size_t phase) const;
  friend bool operator==(const TimeTiles&, const TimeTiles&) = default;
};

// "16 trips at a time over 4 blocks of 32 of 128 iterations"; `turns`: of a trip.
std::string print(const TimeTiles& tiles, int64_t turns);
// Whether the numbers mean something together: for those that come from a record.
bool is_sound(const TimeTiles& tiles);

// Iterations begin … end - 1 along a dimension; of one that wraps, counted on beyond both ends.
struct IterationSpan {
  int64_t begin = 0, end = 0;
};
// What turn number `turn` of those at a time does of a piece of a phase, along dimension `along`.
IterationSpan span_of(const TimeTiles& tiles, size_t phase, int64_t piece, int64_t turn,
                      size_t along);

// Tiles that may pay, most promising first, each of another kind: of blocks along the first
// dimension and along both, whose cells, with `bytes` for all iterations, stay in a core's second
// cache, and of larger ones, which stay in the cache that cores share. `dimensions`: without
// blocks. `trips`: of the loop, each of so many turns. None where the state stays in the caches
// anyway, or where too few trips would be at a time.
std::vector<TimeTiles> time_tiles(const std::vector<TiledDimension>& dimensions, int64_t turns,
                                  int64_t trips, int64_t bytes, const Target& target);

}  // namespace tile
