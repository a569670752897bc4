// Candidates for the register tile of a piece.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "core/schedule/facts/piece_facts.h"

namespace tile {

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
std::vector<RegisterTile> register_tiles(const PieceFacts& facts);
// Tiles of registers that hold matrices: rows along a parallel dimension of one factor, columns
// along one of the other.
std::vector<RegisterTile> amx_register_tiles(const PieceFacts& facts);

}  // namespace tile
