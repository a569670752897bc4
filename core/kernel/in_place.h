// Results that take the memory of what they are made of.
#pragma once

#include "core/kernel/kernel.h"

namespace tile {

// Whether the kernel computes the same where `written`, which it writes, lies in the memory of
// `read`, which it reads, both dense and of one type: under every legal schedule each element of
// `read` is read before the element of `written` in its place is stored. False also where that is
// not seen.
bool works_in_place(const Kernel& kernel, TensorId read, TensorId written);

}  // namespace tile
