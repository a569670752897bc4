// The derivative of a product over a reduction (rule 7.3a).
#pragma once

#include "core/autodiff/derivation/derivation.h"

namespace tile {

// Accesses whose product at a point of the forward contraction is the product of all the other
// factors of that point's cell: exclusive prefixes and suffixes in lexicographic order of the
// coordinates, one pair for each of them, never a division. Linear work where the points of a cell
// fill lines along the coordinates; where the output couples coordinates, each prefix looks at all
// the points of its cell. Throws Failure (bind) if an index is not bounded.
std::vector<SymbolicAccess> product_of_others(Derivation& derivation, const Statement& statement,
                                              const SymbolicContraction& forward);

}  // namespace tile
