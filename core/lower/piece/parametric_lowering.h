// Blocks of parallel dimensions whose sizes, order and shares of the threads a launch gives. All of
// a piece's blocks are one loop, cut into a chunk for each thread. Its counter is taken apart into
// the positions of as many loops as there are parallel dimensions; each parallel dimension has for
// each of those positions the tiles that it moves by, which are none but for one. What is not
// linear has a name, so that indices are linear in it.
#pragma once

#include <optional>
#include <vector>

#include "core/lower/piece/packing_lowering.h"

namespace tile::lowering {

class ParametricLowering : PieceForm {
 public:
  ParametricLowering(TileParts& parts, PackingLowering& packing)
      : PieceForm(parts), packing_(packing) {}

  // The loop over all blocks; `inside`: what one block holds.
  nest::Block parametric_tiling(const Leaf& inside);
  // The place among the loops over blocks of the parallel dimension of an outer loop behind them.
  std::optional<size_t> parametric_tile_of(size_t outer) const;
  // The tiles of a block: whole ones, and in the last block what the box's end leaves of one.
  nest::Block tiles_of_block(size_t outer, size_t block, const State& s, const Leaf& inside) const;

 private:
  nest::Block position_in_blocks(const Expr& rest, std::vector<Expr> at, const State& s,
                                 const Leaf& inside) const;
  nest::Block block_of_parallel_dim(size_t i, const std::vector<Expr>& at, const State& s,
                                    const Leaf& inside) const;

  PackingLowering& packing_;
};

}  // namespace tile::lowering
