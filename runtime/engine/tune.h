// The race of one kernel's schedules on this machine.
#pragma once

#include "runtime/engine/kernel_timer.h"

namespace tile {

using RaceProgress = std::function<void(size_t tried, size_t total, double best_ns)>;

// The schedule that wins a race of at most `budget_ms` milliseconds, compiling included. What an
// earlier race found best for the nearest shape takes part.
Schedule race(const Executable& executable, const Launch& launch, KernelTimer& timer,
              double budget_ms, const RaceProgress& progress = {});

}  // namespace tile
