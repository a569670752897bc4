// A product whose terms are a window's outputs, as the gradient of a filter has them, as one of
// plain matrices: rows in memory hold all taps of a term.
#pragma once

#include <vector>

#include "core/layout/factor_copies.h"

namespace tile {

// One factor is copied with an element for each pair of a term and a tap, neighbours in memory as
// they are in the factor; the other is read where it lies, under another shape. The product then
// makes a matrix, of which a statement in `behind` copies its result; `made` gets the statement
// that stands before. False: the factors have another form, and what the contraction and `copies`
// have become is of no use.
bool unfold_rows(Contraction& c, FactorCopies& copies, std::vector<BoundStatement>& made,
                 std::vector<BoundStatement>& behind);

}  // namespace tile
