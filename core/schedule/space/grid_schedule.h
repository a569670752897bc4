// Schedules whose parallel loop is a grid over single iterations of a result's first dimensions:
// what blocks in space and time (core/schedule/cost/time_tiles.h) run spans of.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/kernel/schedule.h"

namespace tile {

// `schedule` with its parallel loops over the dimensions of what the kernel stores, the first ones,
// in these steps, and the iterations that each has. They come to cells of the result in order.
// nullopt: a stage of the kernel is not one piece that stores each iterator at a dimension of its
// own, or such a schedule is not legal, or it would add up a reduction's terms in another order:
// what both compute is the same, bit for bit.
struct GridSchedule {
  // What the schedule is for: the kernel, whose stages may share other row loops now.
  Kernel kernel;
  Schedule schedule;
  std::vector<int64_t> grid;
};
std::optional<GridSchedule> grid_schedule(const Schedule& schedule,
                                          const std::vector<int64_t>& steps, const Kernel& kernel,
                                          const Target& target);

// Whether kernels under both schedules add up the terms of each reduction in one order.
bool same_order_of_terms(const Schedule& a, const Schedule& b, const Kernel& kernel,
                         const Target& target);

// The fastest of such schedules by the model, data being in a core's second cache, among the best
// of the kernel's own and `schedule`; all with terms in the order of `schedule`.
std::optional<GridSchedule> best_grid_schedule(const Schedule& schedule,
                                               const std::vector<int64_t>& steps,
                                               const Kernel& kernel, const Target& target);

// Steps of a grid for results of this shape, of one or two dimensions: single rows where there are
// rows, else ranges of neighbours.
std::vector<int64_t> grid_steps(const std::vector<int64_t>& shape);

// Nanoseconds of a run whose data is in a core's second cache, without starting threads.
double cached_time(const Schedule& schedule, const Kernel& kernel, Target target);

}  // namespace tile
