// What a host may do for the library in place of the library's own means.
#pragma once

#include <cstddef>

namespace tile {

// Memory. Functions as tile_allocator in runtime/include/tile/tile.h documents them.
struct Allocator {
  void* (*allocate)(void* user, size_t bytes, size_t alignment, void* stream) = nullptr;
  void (*release)(void* user, void* memory, size_t bytes, void* stream) = nullptr;
  void* user = nullptr;
  bool is_given() const { return allocate != nullptr; }
};

// Threads. `run` calls task(context, i) for each i in [0, count), on any threads, and returns when
// these calls have. A host that leaves calls out costs time, not results: see WorkerTeam.
struct ParallelFor {
  using Task = void (*)(void* context, size_t i);
  void (*run)(void* user, size_t count, Task task, void* context) = nullptr;
  void* user = nullptr;
  bool is_given() const { return run != nullptr; }
};

}  // namespace tile
