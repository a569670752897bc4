// The families of schedules of one piece: each function considers those of one family.
#pragma once

#include "core/schedule/space/piece/tiling_parts.h"

namespace tile {

// Prefix and suffix reductions and sliding windows: vectors along a parallel dimension that memory
// has contiguous, or several rows at a time.
void consider_carried_loops(const TilingParts& parts);

// Of the others each works around one register tile.

// Blocks for the second-level cache: (m block, n block, k block) with both operands packed; and
// blocks of rows that share the panels of the operand along the vector.
void consider_cache_blocks(const TilingParts& parts, const RegisterTile& t);
// Copies of operands for the loops of `s`: of those along the vector alone, such as weights, in
// panels: all at once before the loops, or the panel of one tile inside the loop over tiles where
// that is the outermost. And of operands of several parallel dimensions as a whole, so that a
// contraction of permuted tensors reads them in order.
void consider_operand_panels(const TilingParts& parts, const RegisterTile& t,
                             const PieceSchedule& s);
// A short block of the reduction over long rows: operands are read in the order of memory, or in
// copies of the block; the partial sums stay in the cache.
void consider_short_reduction_blocks(const TilingParts& parts, const RegisterTile& t);
// Sums of a part of the cells stay in the second-level cache while blocks of the reductions pass
// by, so that operands are read once, whatever those cells share of them.
void consider_kept_sums(const TilingParts& parts, const RegisterTile& t);
// Blocks of a transposed copy: every line of both sides is used up while it is in the cache.
void consider_transposed_copies(const TilingParts& parts, const RegisterTile& t);

}  // namespace tile
