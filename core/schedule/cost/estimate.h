// The analytic model of whole kernels.
#pragma once

#include "core/kernel/schedule.h"
#include "core/schedule/cost/piece/cost_term.h"

namespace tile {

// Estimated nanoseconds of one run. `into`, if given, becomes the same time in its parts, computed
// by the same code; without it nothing is collected.
double estimate(const Schedule& schedule, const Kernel& kernel, const Target& target,
                CostTerm* into = nullptr);

}  // namespace tile
