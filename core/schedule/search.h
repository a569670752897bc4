// The race of search() (schedule.h) in parts, for a caller that needs its field before.
#pragma once

#include <functional>
#include <vector>

#include "core/schedule/schedule.h"

namespace tile {

// search() among what field_of() gave for the same kernel, target and options.
Schedule search_in(const std::vector<Schedule>& field, const Kernel& kernel, const Target& target,
                   const std::function<double(const Schedule&)>& measure,
                   const SearchOptions& options);

}  // namespace tile
