// A product over windows as one of plain matrices, whose rows hold the terms of one output.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/layout/factor_copies.h"

namespace tile {

// Both factors are copied with an element for each pair of an output and a tap, so that the
// reductions become one; `made` gets the statements that copy. False: the factors have another
// form, and what the piece and `copies` have become is of no use.
bool unfold_taps(Piece& piece, FactorCopies& copies, std::vector<BoundStatement>& made);

}  // namespace tile
