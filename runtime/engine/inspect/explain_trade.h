// Time against memory: what a program would take with choices by what is stored.
#pragma once

#include <cstddef>
#include <optional>

#include "runtime/engine/executable.h"

namespace tile {

struct LeastStored {
  double ns = 0;  // by the model
  size_t temporary_bytes = 0;
};
// Nothing where that is no less than the executable's temporaries, or where steps are no kernels.
std::optional<LeastStored> least_stored(const Executable& executable);

}  // namespace tile
