// The space of kernels with row loops: which rows come in blocks, and each stage's best schedule
// for such a block.
#pragma once

#include <cstddef>
#include <vector>

#include "core/kernel/schedule.h"

namespace tile {

// candidates() of kernels with row loops.
std::vector<Schedule> row_candidates(const Kernel& kernel, const Target& target, size_t limit);

}  // namespace tile
