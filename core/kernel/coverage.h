// What the conditions of a domain prove: whether reductions have points, and whether the pieces of
// a contraction write every cell of its output.
#pragma once

#include <vector>

#include "core/ir/bound.h"

namespace tile {

// The iterators that a form moves with.
std::vector<size_t> iterators_in(const Affine& form);
// The least and greatest value of a form on the box.
struct FormRange {
  Rational lo, hi;
};
FormRange range_over_box(const Affine& form, const std::vector<int64_t>& box);
// The same condition on a form with integral coefficients.
Constraint integral(const Constraint& c);
// True when every point of the parallel dimensions has a valid reduction point.
bool surely_nonempty(const Piece& piece);
// True when the load reads exactly the cell that the piece's own iterators name: every iterator of
// more than one value stands alone in one dimension of the shape and runs over all of it.
bool reads_own_cell(const Piece& piece, const Access& load, const Shape& shape);
// True when the piece stores a cell for every point of its parallel dimensions.
bool stores_all_parallel_dims(const Contraction& c, const Piece& piece);
// True when the pieces write every cell of the outputs.
bool covers_output(const Contraction& c, const BoundTensors& tensors);

}  // namespace tile
