// Kernels with row loops, for the files of this folder.
#pragma once

#include <string>
#include <vector>

#include "core/schedule/schedule.h"

namespace tile {

// Empty where the kernel's rows keep the rules of KernelStage::rows; else the first broken one.
std::string broken_rows(const Kernel& kernel);
// The same of Schedule::shared.
std::string broken_shared(const Schedule& schedule, const Kernel& kernel);

// The kernel with the extents of its rows replaced: what a block of rows is to its stages.
Kernel block_of_rows(const Kernel& kernel, const std::vector<int64_t>& blocks);
// One loop around all stages: a row by its number.
struct SharedLoop {
  size_t row = 0;
  int64_t step = 1;
  Binding binding = Binding::serial;
};
// A stage's schedule for a block of rows, inside the shared loops.
PieceSchedule inside_shared(const PieceSchedule& block, const KernelStage& stage,
                            const std::vector<SharedLoop>& shared);

}  // namespace tile
