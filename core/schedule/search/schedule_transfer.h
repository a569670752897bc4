// Kernels that differ in sizes alone: what was best for one is a good guess for the other.
#pragma once

#include <string>
#include <vector>

#include "core/kernel/schedule.h"

namespace tile {

// The kernel's text with every number replaced by a mark: equal for kernels of equal structure.
std::string outline(std::string_view kernel_text);
// The sum of the logarithms of the ratios of the loops' extents; infinity for kernels that differ
// in more than sizes.
double distance(const Kernel& a, const Kernel& b);
// A schedule made for `from`, with the blocks that were a whole extent made whole again.
Schedule resized(Schedule schedule, const Kernel& from, const Kernel& to);

}  // namespace tile
