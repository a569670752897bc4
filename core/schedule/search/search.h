// The race of candidates.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "core/kernel/schedule.h"

namespace tile {

// Races candidates: `measure` gives nanoseconds of one run (infinity: failed). Every rung measures
// each candidate once more and keeps the faster third by their least times. Deterministic given the
// measurements and the clock.
struct SearchOptions {
  size_t candidates = 36;
  double budget_ns = 200e6;  // on the clock; without one, of measured runs
  // No schedule can be faster (see bound_ns): a candidate within 3 % of it ends the race. 0: not
  // known.
  double bound_ns = 0;
  // Raced beside the model's candidates, such as what was best for the nearest shape. Those that
  // are not legal for this kernel are passed over.
  std::vector<Schedule> also;
  std::function<double()> clock;  // nanoseconds from any start; may be empty
  std::function<void(size_t tried, size_t total, double best_ns)> progress;  // may be empty
  // Told the last few before they are measured in turns; their times before do not count then. May
  // be empty.
  std::function<void(std::span<const Schedule>)> finalists;
};
// Whom search() races, in the order of the first rung: the model's pick first. On a CPU they are of
// kernels with blocks of run-time sizes (parametric_tiling.h), at most kSharedBy of each, and come
// by so many kernels: the best of each, then the second best of each.
constexpr size_t kSharedKernels = 8, kSharedBy = 6;
std::vector<Schedule> field_of(const Kernel& kernel, const Target& target,
                               const SearchOptions& options);
Schedule search(const Kernel& kernel, const Target& target,
                const std::function<double(const Schedule&)>& measure,
                const SearchOptions& options);

// search() among what field_of() gave for the same kernel, target and options.
Schedule search_in(const std::vector<Schedule>& field, const Kernel& kernel, const Target& target,
                   const std::function<double(const Schedule&)>& measure,
                   const SearchOptions& options);

}  // namespace tile
