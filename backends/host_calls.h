// Calls of what a host does for the library. A host in C++ may throw where it must not: that ends
// the call, never the process.
#pragma once

#include <cstddef>

#include "backends/host_services.h"

namespace tile {

// `bytes` at a multiple of `alignment`. `what`: what errors call it, such as "device memory".
// Throws Failure (stage run): "memory" where there is none or the function threw, "argument" where
// it is not aligned.
void* take_memory(const Allocator& host, size_t bytes, size_t alignment, void* stream,
                  const char* what);
void give_back_memory(const Allocator& host, void* memory, size_t bytes, void* stream) noexcept;

// Throws Failure (stage run, "argument") where the host threw.
void run_on(const ParallelFor& host, size_t count, ParallelFor::Task task, void* context);

}  // namespace tile
