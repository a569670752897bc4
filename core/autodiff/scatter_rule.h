// The adjoint of reads whose places depend on data, or on indices in a way that has no inverse.
#pragma once

#include "core/autodiff/derivation/derivation.h"

namespace tile {

// Appends to a body that starts with the nodes of `forward`'s whether the access reads an element
// and not the constant outside; -1: it always does.
NodeId add_inside_test(Body& body, const Derivation& derivation, const SymbolicContraction& forward,
                       size_t slot);

// The adjoint of the tensor that access number `slot` of `forward` reads, from what each point
// contributes: `contributions`, over the same points, without an output yet. Throws Failure (bind)
// if an index is not bounded.
TensorId scattered(Derivation& derivation, const Statement& statement,
                   const SymbolicContraction& forward, size_t slot,
                   SymbolicContraction contributions);

}  // namespace tile
