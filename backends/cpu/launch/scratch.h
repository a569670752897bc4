// Memory that code uses for itself on one thread.
#pragma once

#include <cstddef>

namespace tile::cpu {

// The calling thread's, of at least so many bytes, aligned to 64, until the thread asks again; what
// it holds is anything. Throws Failure (run, "memory").
std::byte* scratch(size_t bytes);

// For tests, which see there what code reads before it writes, and what it touches beside: from now
// on scratch() asks `source` instead. Null: memory that the thread keeps.
using ScratchSource = std::byte* (*)(size_t bytes);
void set_scratch_source(ScratchSource source);

}  // namespace tile::cpu
