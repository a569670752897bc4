// Two kernels as one whose stages share rows (KernelStage::rows).
#pragma once

#include <optional>

#include "core/ir/bound.h"
#include "core/kernel/kernel.h"

namespace tile {

// The stages of the first, then those of the second. The rows are what every access to what they
// share (results of the first, else the largest tensor that both read) names in one dimension.
// Nothing where there are none, or too many stages or reads.
std::optional<Kernel> merged_rows(const Kernel& first, const Kernel& second,
                                  const BoundProgram& program);

}  // namespace tile
