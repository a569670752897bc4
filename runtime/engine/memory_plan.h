// Temporaries share memory: each gets an offset in one arena for the launches between its first
// write and its last read.
#pragma once

#include "runtime/engine/executable.h"

namespace tile {

// Fills executable.places, copies, densified and arena_bytes from its program and launches. Throws
// Failure (run, "memory") past the engine's limit.
void plan_memory(Executable& executable, size_t memory_limit);

}  // namespace tile
