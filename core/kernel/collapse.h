// Merging of adjacent dimensions that a kernel only ever walks as one.
#pragma once

#include "core/kernel/kernel.h"

namespace tile {

// Whether the index is a constant that is in range by construction.
bool is_constant_index(const Index& index);
// The iterator that the index is, alone; none: a constant or anything else.
IteratorId sole_iterator(const Index& index, size_t iterators);
// Whether an affine index of the access moves with the iterator.
bool moves_with(const Access& access, size_t iterator);
inline bool moves_with(const Access& access, IteratorId u) { return moves_with(access, u.index()); }

// Takes reductions of one value out of the kernel: a window of one tap is none, and what its
// parallel dimensions walk can merge.
void drop_points(Kernel& kernel);

// Merges iterators and tensor dimensions until none can be; kernel.shapes keeps the shapes that
// tensors had. The values that the kernel computes, in row-major order, stay the same.
void collapse(Kernel& kernel);

}  // namespace tile
