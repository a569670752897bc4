// How fast a kernel can be at best on a measured machine.
#pragma once

#include "core/kernel/kernel.h"
#include "core/target/rates.h"

namespace tile {

// Nanoseconds that the kernel takes at least on a CPU under any schedule, on all of the target's
// threads: its arithmetic, and its data once from where they fit. 0: not known.
double bound_ns(const Kernel& kernel, const Target& target, const MachineRates& rates);

}  // namespace tile
