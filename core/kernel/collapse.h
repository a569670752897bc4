// Merging of adjacent dimensions that a kernel only ever walks as one.
#pragma once

#include "core/kernel/kernel.h"

namespace tile {

// The unknown that the index is, alone; -1: a constant; -2: anything else.
int sole_unknown(const Index& index, size_t unknowns);
// Whether an affine index of the access moves with the unknown.
bool moves_with(const Access& access, size_t unknown);

// Takes reductions of one value out of the kernel: a window of one tap is none, and what its owners
// walk can merge.
void drop_points(Kernel& kernel);

// Merges unknowns and tensor dimensions until none can be; kernel.shapes keeps the shapes that
// tensors had. The values that the kernel computes, in row-major order, stay the same.
void collapse(Kernel& kernel);

}  // namespace tile
