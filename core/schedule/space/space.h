// The space of tilings of one piece: aligned candidates, built from the extents and the target.
#pragma once

#include <vector>

#include "core/schedule/cost/cost.h"
#include "core/schedule/legality/legality.h"

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

// Values of a reduction that are written out for joined lanes.
constexpr int64_t kMostPicked = 8;

// Register tiles: which iterator is vectorised, which parallel dimensions are unrolled and how far.
struct RegisterTile {
  IteratorId vector;  // a parallel dimension or a reduction; none: scalar code
  int64_t vectors = 1;
  // Parallel dimensions; of `joined`, how many vectors with `rows` values each.
  std::vector<std::pair<IteratorId, int64_t>> unrolled;
  int64_t copies = 1;  // of an unrolled reduction
  // Another parallel dimension, of which the vector takes `rows` values, each with all of the
  // first's.
  IteratorId joined = {};
  int64_t rows = 1;
};
std::vector<RegisterTile> register_tiles(const Piece& piece, const Contraction& c,
                                         const PieceModel& model, const Target& target);

}  // namespace tile
