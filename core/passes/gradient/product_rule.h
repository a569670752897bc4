// The derivative of a product over a reduction (rule 7.3a).
#pragma once

#include "core/passes/gradient/derivation.h"

namespace tile {

// Accesses whose product at a point of the forward contraction is the product of all the other
// factors of that point's cell: exclusive prefixes and suffixes in lexicographic order of the
// indices, one pair for each index, never a division. The tensors hold one element for each index
// value. Throws Failure (bind) if an index has no bound of its own that the text names.
std::vector<SymbolicAccess> product_of_others(Derivation& derivation, const Statement& statement,
                                              const SymbolicContraction& forward);

}  // namespace tile
