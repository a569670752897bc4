// The analytic model of whole kernels.
#pragma once

#include "core/kernel/schedule.h"

namespace tile {

// Estimated nanoseconds of one run.
double estimate(const Schedule& schedule, const Kernel& kernel, const Target& target);

}  // namespace tile
