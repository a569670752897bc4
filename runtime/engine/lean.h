// What an executable keeps once it is made: a cache holds thousands.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/engine/executable.h"

namespace tile {

// The executable with what its runs need alone, as if it were made from its record: what else there
// is to tell of it is made again when asked for (see compile_stages).
std::shared_ptr<const Executable> without_stages(const Executable& executable);

// About what it takes in memory, its share of code that others use too included.
size_t memory_of(const Executable& executable);

}  // namespace tile
