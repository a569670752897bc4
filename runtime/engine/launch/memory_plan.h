// Temporaries share memory: each gets an offset in one arena for the launches between its first
// write and its last read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/engine/executable.h"

namespace tile {

// What is in an arena from one time to another, both included.
struct Life {
  size_t first = SIZE_MAX, last = 0, bytes = 0, offset = 0;

  void at(size_t time) {
    first = std::min(first, time);
    last = std::max(last, time);
  }
};
// Gives each an offset, so that none that live at one time overlap; returns the bytes of the arena.
size_t place_lives(std::vector<Life*> lives);

// Bytes of the arena that the steps' temporaries share.
size_t temporary_bytes(const BoundProgram& program, const std::vector<Step>& steps);

// Bytes of memory that this machine has; SIZE_MAX where it does not say.
size_t machine_memory();

// Bytes that the engine allocates for one run with dense outputs, and for the executable's
// constants: what EngineOptions::memory_limit bounds.
size_t memory_needed(const Executable& executable);
// Throws Failure of that stage ("memory") if that and `more` is beyond the engine's limit.
void check_memory_limit(const Executable& executable, Stage stage, size_t more = 0);

// Fills executable.places, copies, densified and arena_bytes from its program and launches. Throws
// Failure (compile, "memory") past the engine's limit.
void plan_memory(Executable& executable);

}  // namespace tile
