// Runs of a step again and again within one launch.
#pragma once

#include "runtime/engine/executable.h"

namespace tile {

// Bytes that a loop's launch takes as workspace: a second state beside the result, and what a step
// takes. Aligned as workspaces are.
size_t loop_workspace(const StepLoop& loop);
// Whether so many bytes hold that, whatever a damaged record says of the step.
bool fits_loop(const StepLoop& loop, size_t bytes);

// Pointers to the first elements of the operands, the state first, and of the result, which the
// states alternate with. Nothing is copied. Of the options the stream and the control count.
void run_loop(const StepLoop& loop, std::span<void* const> pointers, std::byte* workspace,
              const RunOptions& options);

}  // namespace tile
