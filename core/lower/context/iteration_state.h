// Where statements stand among the loops of a piece, and what a statement is made of.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/ir/bound.h"
#include "core/nest/nest.h"

namespace tile::lowering {

// What one block of loops knows of an iterator: its value so far is the sum of step * value over
// the levels; the current block holds `size` values from there (at most `bound`).
struct Level {
  int64_t step = 1;
  Expr value;
};
struct Position {
  std::vector<Level> levels;
  Expr size;
  int64_t bound = 0;

  Expr begin() const;
};
// Whether the points of a tile are tested against the conditions placed there.
enum class Guards : uint8_t { untested, points, none };
// The rows of a register tile along one of its iterators; without one, all.
struct TileRows {
  IteratorId iterator;
  int64_t first = 0, count = 0;
};
// The iteration that statements are generated for.
struct State {
  IdVector<IteratorId, Position> at;
  std::vector<Expr> tile_index;  // the value of each tile loop entered so far
  Expr copy;                     // which of the independent accumulators
  Guards guards = Guards::untested;
  TileRows rows;                       // of the tile those that have points
  Expr lane;                           // of the vector loop over a reduction
  std::vector<nest::BufferId> packed;  // for each load the buffer that holds its block, if one
  // For each packed load the number of each iterator's levels outside its block.
  std::vector<IdVector<IteratorId, size_t>> outside;
  bool one_cell =
      false;  // of a carried parallel dimension: the tile's loops over it are passed over
  size_t carried_index =
      0;  // of `tile_index`, its last ones: loops over the carried parallel dimension
};

// What stands inside loops, of the iteration that they have reached.
using Leaf = std::function<nest::Block(const State&)>;

// A body being translated, with the accesses that its loads name.
struct Value {
  Body body;
  std::vector<nest::Access> loads;
};
// Gives a store its body, without nodes that nothing needs, and its loads.
void settle(nest::Store& store, Value value);
// Replaces a load of a tensor computed in the same tile: the node, or none to read memory.
using Replacement = std::function<NodeId(Value&, TensorId)>;

}  // namespace tile::lowering
