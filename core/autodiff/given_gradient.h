// Rule 7.4: a program given by the user in place of a generated vector-Jacobian product.
#pragma once

#include <string>
#include <vector>

#include "core/autodiff/derivation/derivation.h"

namespace tile {

// Appends the statements of `given`, its inputs standing for the inputs and outputs of the
// derivation's program of the same names and for the seed. Returns the tensor that is the gradient
// of each of `inputs`. Throws Failure (bind) if `given` does not compute one of them.
std::vector<TensorId> append_given_gradient(Derivation& derivation, const Program& given,
                                            const std::string& of,
                                            const std::vector<TensorId>& inputs, Span span);

}  // namespace tile
