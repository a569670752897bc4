// Whether two kernels are one, whatever their programs call things and hold beside.
#pragma once

#include "core/kernel/kernel.h"

namespace tile {

// The same as equal texts of the canonical forms (see canonical.h: the places where parts of
// tensors begin are none of it), but for shapes before merging
// and those of tensors that are seen under another shape alone; without a text, which would take
// much longer.
bool alike(const Kernel& a, const Kernel& b);

}  // namespace tile
