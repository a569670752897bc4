// Merging of adjacent dimensions that a kernel only ever walks as one.
#pragma once

#include "core/kernel/kernel.h"

namespace tile {

// Takes reductions of one value out of the kernel: a window of one tap is none, and what its
// parallel dimensions walk can merge.
void drop_points(Kernel& kernel);

// Merges iterators and tensor dimensions until none can be; kernel.shapes keeps the shapes that
// tensors had. The values that the kernel computes, in row-major order, stay the same.
void collapse(Kernel& kernel);

}  // namespace tile
