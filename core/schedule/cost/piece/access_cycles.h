// The cycles of single accesses of a register tile.
#pragma once

#include <cstdint>

#include "core/schedule/facts/piece_facts.h"
#include "core/schedule/facts/tile_shape.h"

namespace tile {

// A vector that takes all values of `last` for each of `rows` of `first`'s.
struct JoinedLanes {
  IteratorId first, last;
  int64_t rows = 1;
};

// The facts must outlive it.
class AccessCycles {
 public:
  explicit AccessCycles(const PieceFacts& facts) : f_(facts) {}

  double lines_of_vector(const AccessFacts& a, IteratorId vector) const;
  // Of one vector of the access when `vector` is the vector iterator.
  double vector_cycles(const AccessFacts& a, IteratorId vector, bool packed) const;
  double joined_cycles(const AccessFacts& a, const JoinedLanes& lanes, bool packed) const;
  double transpose_cycles(int64_t rows) const;
  // Of one vector in a tile; of what is stored, the vector has no lanes along a reduction.
  double load_cycles(const AccessFacts& a, const TileShape& t, bool packed) const;
  double store_cycles(const AccessFacts& a, const TileShape& t) const;

 private:
  const PieceFacts& f_;
};

}  // namespace tile
