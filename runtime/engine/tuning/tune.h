// The race of one kernel's schedules on this machine.
#pragma once

#include <optional>

#include "runtime/engine/tuning/kernel_timer.h"

namespace tile {

using RaceProgress = std::function<void(size_t tried, size_t total, double best_ns)>;

// The schedule that wins a race of at most `budget_ms` milliseconds, compiling included. What an
// earlier race found best for the nearest shape takes part. At last, with the budget spent or not
// (a few milliseconds, and on a CPU the code of the last four), those are timed in turns with the
// code that runs now; nullopt: none is faster than that by more than the noise, or there is no
// time at all.
std::optional<Schedule> race(const Executable& executable, const Launch& launch, KernelTimer& timer,
                             double budget_ms, const RaceProgress& progress = {});

}  // namespace tile
