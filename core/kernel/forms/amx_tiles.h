// Sums of products of narrow elements in registers that hold matrices (Target::tiles): which
// schedules use them, and what of a piece is whose matrix. The loops are
//   tile (…, m:1 matrix, n:1 matrix)  reduce (…, k:group matrix, k:1 dot)
// `a` is the load that moves with the rows m, `b` the one that moves with the columns n. A register
// of sums has what the block of m and that of n hold; one instruction multiplies the groups of the
// block of k, which zeros fill up in the copies where k has no more.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/kernel/forms/dot_products.h"
#include "core/kernel/schedule.h"

namespace tile {

// Of a schedule that ends so (uses_tiles) the factors, `x` those of the rows; nullopt: the piece is
// no such sum.
std::optional<DotForm> tile_form(const PieceSchedule& schedule, const Piece& piece,
                                 const Contraction& c, const BoundTensors& tensors);
// The form of any schedule that ends in a dot.
std::optional<DotForm> form_of(const PieceSchedule& schedule, const Piece& piece,
                               const Contraction& c, const BoundTensors& tensors);
// The factors of a sum of products of bf16, or of bytes of any signs; `x` is the first load of the
// product.
std::optional<DotForm> tile_factors(const Piece& piece, const Contraction& c,
                                    const BoundTensors& tensors);
// Multiply-adds per nanosecond; 0: the target has none of the type.
double tiles_per_ns(const DotForm& form, const Target& target);

// Sizes that follow from the loops.
struct TileSizes {
  IteratorId m, n, k;
  int64_t rows = 0, columns = 0;            // of one register, and…
  int64_t row_tiles = 0, column_tiles = 0;  // …how many of them
  int64_t group = 0, groups = 0;  // neighbours, and groups that one instruction multiplies
  int64_t terms() const { return group * groups; }
};
TileSizes tile_sizes(const PieceSchedule& schedule, const Piece& piece);

}  // namespace tile
