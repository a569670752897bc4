// The parts of group().
#pragma once

#include <functional>
#include <vector>

#include "core/schedule/kernel.h"

namespace tile {

// Merges kernels that share rows (KernelStage::rows) where that is cheaper. `finish` completes a
// kernel: what it reads and writes, and where its results live.
std::vector<Step> fuse_rows(std::vector<Step> steps, const BoundProgram& program,
                            const Target& target, const std::function<void(Kernel&)>& finish);

}  // namespace tile
