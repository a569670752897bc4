// Candidates of whole kernels: aligned legal schedules in the order of the model.
#pragma once

#include <cstddef>
#include <vector>

#include "core/kernel/schedule.h"

namespace tile {

// The best of the aligned candidates by the model alone; always legal.
Schedule analytic_schedule(const Kernel& kernel, const Target& target);
// Aligned legal candidates, best first by the model, at most `limit`.
std::vector<Schedule> candidates(const Kernel& kernel, const Target& target, size_t limit);
// The same from more register tiles on a CPU, for a race: it has time for them.
std::vector<Schedule> wide_candidates(const Kernel& kernel, const Target& target, size_t limit);
// The same from every register tile of the space on a CPU, not only from those that the model finds
// best: what the short list is judged against.
std::vector<Schedule> whole_space(const Kernel& kernel, const Target& target, size_t limit);

}  // namespace tile
