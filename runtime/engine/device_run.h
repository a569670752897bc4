// Runs of an executable on a device with memory of its own.
#pragma once

#include "runtime/engine/executable.h"

namespace tile {

// As run(); tensors are in host memory (copied in and out, waiting for the results) or on the
// device (used where they are, nothing waits).
void run_on_device(const Executable& executable, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs, const RunOptions& options);

}  // namespace tile
