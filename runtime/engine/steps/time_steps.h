// Runs of several steps in time: an executable again and again, outputs of a step being inputs of
// the next.
#pragma once

#include <cstdint>

#include "runtime/engine/executable.h"

namespace tile {

// Each step but the first reads output `output` of the step before as its input `input`.
struct Feed {
  size_t output = 0, input = 0;
};

// Whether the feeds fit the executable: types, shapes, dense inputs that are no constants and set
// no sizes, each fed once. Throws Failure (run, "argument") at the output's place in the text.
void check_feeds(const Executable& executable, std::span<const Feed> feeds);

// As run() `steps` times, of tensors that check_tensors() and check_feeds() accept. The first step
// reads the inputs, the last writes the outputs; what is fed alternates between the output's memory
// and as much beside it. No steps: outputs are copies of the inputs that they feed. Between steps
// the control is asked. Throws Failure (run): "overlap" where an output is in the memory of an
// input that every step reads, "argument" for no steps of an output that feeds nothing.
void run_steps(const Executable& executable, std::span<const TensorView> inputs,
               std::span<const TensorView> outputs, std::span<const Feed> feeds, uint64_t steps,
               const RunOptions& options = {});

}  // namespace tile
