// Blocked reductions: the sums of the blocks so far wait in the output, or in a workspace of the
// accumulator's type where the output's is another; of a streamed axis, in buffers of one block of
// rows. A tile starts from them, or adds them to its own, and leaves the sum there.
#pragma once

#include <vector>

#include "core/lower/tile/tile_parts.h"

namespace tile::lowering {

class PartialSums : PieceForm {
 public:
  explicit PartialSums(TileParts& parts) : PieceForm(parts) {}

  void make(nest::Block& out);
  nest::Access partial(size_t output, const State& s) const;
  // Whether the state is in the first, or last, block of all reductions.
  Body first_block(const State& s) const;
  Body last_block(const State& s) const;
  // A register tile's accumulators at their neutral element, or at the sums of the blocks before.
  nest::Block initialise(const State& s) const;
  // Where they started at the neutral element in every block: adds the sums of the blocks before.
  nest::Block join(const State& s) const;
  // A cell at the sums of the blocks before; a cell's sums, until the next block.
  nest::Block resumed(const State& at) const;
  nest::Block kept(const State& at) const;
  // Of a streamed axis: the cell that the parallel dimensions name, in a buffer of one block.
  nest::Access of_block(nest::BufferId buffer, const State& s) const;

 private:
  void make_stream_partials();
  Expr in_first_block(const State& s) const;
  bool sums_apart() const;
  nest::Block joined(const State& at) const;
  nest::Block started(const State& at, bool resume) const;
  nest::Access of_row(nest::BufferId buffer, const State& s) const;
  void rescale(nest::Store& resumed, const State& s) const;

  std::vector<nest::BufferId> partials_;  // by output; none: the output itself
};

}  // namespace tile::lowering
