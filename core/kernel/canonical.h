// The canonical form of a kernel, or of a part of a program: the same whatever program it stands
// in.
#pragma once

#include <optional>

#include "core/kernel/kernel.h"

namespace tile {

// The kernel with the tensors that it uses alone, numbered in the order of their first use, and
// with names that say nothing: equal texts (print) for kernels of equal structure and sizes,
// whatever the program calls things and holds beside, and wherever in its tensors parts begin. A
// schedule for the one is a schedule for the other, as schedules name stages, pieces, iterators and
// loads by number. Throws InternalError for a kernel that names a tensor which is not there.
Kernel canonical(const Kernel& kernel);
// The same of a program of contractions; nullopt: it has other statements.
std::optional<BoundProgram> canonical(const BoundProgram& program);

}  // namespace tile
