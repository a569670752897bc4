// Temporaries share memory: each gets an offset in one arena for the launches between its first
// write and its last read.
#pragma once

#include "runtime/engine/executable.h"

namespace tile {

// Bytes that the engine allocates for one run with dense outputs, and for the executable's
// constants: what EngineOptions::memory_limit bounds.
size_t memory_needed(const Executable& executable);
// Throws Failure of that stage ("memory") if that and `more` is beyond the engine's limit.
void check_memory_limit(const Executable& executable, Stage stage, size_t more = 0);

// Fills executable.places, copies, densified and arena_bytes from its program and launches. Throws
// Failure (compile, "memory") past the engine's limit.
void plan_memory(Executable& executable);

}  // namespace tile
