// Sums in registers that hold matrices (AMX): started, multiplied into, and stored. The tile's
// loops but the last two are written out.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "core/lower/tile/partial_sums.h"

namespace tile::lowering {

class AmxLowering : PieceForm {
 public:
  AmxLowering(TileParts& parts, const PartialSums& partials)
      : PieceForm(parts), partials_(partials) {}

  nest::Block start_tiles(const State& s);
  nest::Block multiply_tiles(const State& s);
  nest::Block finish_tiles(const State& s);

 private:
  using TileLeaf = std::function<nest::Statement(nest::BufferId fragment, const State&)>;
  // Where the cell of a register goes, or comes from.
  using Cell = std::function<nest::Access(const State&)>;

  nest::Block each_tile(const State& s, const TileLeaf& leaf);
  nest::BufferId fragment(const State& s);
  nest::Block zero_tiles(const State& s);
  nest::Block finished_tiles(const State& s);
  nest::Block move_tiles(nest::MatrixMove::Kind kind, const Cell& cell, const State& s);
  bool moves_tiles(const Cell& cell, const State& s) const;
  State at_cell(const State& s, int64_t row, int64_t column) const;
  nest::Access summed(const State& s) const { return accumulators_.accumulator(0, s); }
  nest::Access operand(size_t load, const State& s) const;

  const PartialSums& partials_;
  std::map<std::pair<Shape, Shape>, nest::BufferId> fragments_;  // by place in the tile and shape
};

}  // namespace tile::lowering
