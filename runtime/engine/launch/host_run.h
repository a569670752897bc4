// Runs of an executable in the host's memory.
#pragma once

#include "runtime/engine/executable.h"

namespace tile {

// As run(), of tensors with the strides compiled for and dense outputs: pointers to the first
// elements of the inputs, then of the outputs, in the executable's order. Once the thread has run
// something as large, it allocates nothing.
void run_on_host(const Executable& executable, void* const* tensors, const RunOptions& options);

}  // namespace tile
