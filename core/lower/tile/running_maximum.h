// The running maximum of a streamed axis, and how far the axis is needed.
#pragma once

#include <optional>

#include "core/lower/tile/partial_sums.h"

namespace tile::lowering {

class RunningMaximum : PieceForm {
 public:
  RunningMaximum(TileParts& parts, const PartialSums& partials)
      : PieceForm(parts), partials_(partials) {}

  // The end of a tile of the running maximum: the factor of this block, the new maximum, and what
  // is made of it.
  nest::Block raise(const State& s);

 private:
  const PartialSums& partials_;
};

// Blocks of a loop: from the first one to before the end, one at least.
struct VisitedBlocks {
  Expr first, end;
};
// Of the shared loop over the streamed axis: those blocks that the rows of `s` need; nothing for
// all of them and for other loops. Sets the frame's `stream_begin` and `stream_end`.
std::optional<VisitedBlocks> visited_blocks(const PieceContext& c, size_t outer, const State& s);
// The same of a loop inside a block, of a stage that makes cells of the axis for some of the
// block's rows: no sum reads the others. There may be none.
std::optional<VisitedBlocks> needed_tiles(const PieceContext& c, size_t outer, const State& s);

}  // namespace tile::lowering
