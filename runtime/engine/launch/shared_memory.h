// Whether elements of strided tensors are the same memory.
#pragma once

#include "runtime/engine/executable.h"

namespace tile {

// Two elements of the tensor have a byte in common. Throws Overflow.
bool shares_with_itself(const TensorView& tensor);
// An element of one tensor and one of the other have. Throws Overflow. Exact, but for layouts that
// so many dimensions interleave that a search of kMostSteps does not settle it: then true.
bool shares_memory(const TensorView& a, const TensorView& b);

}  // namespace tile
