// Random legal schedules: what the tests run to show that no legal schedule changes a result.
#pragma once

#include <cstdint>

#include "core/kernel/schedule.h"

namespace tile {

Schedule random_schedule(const Kernel& kernel, const Target& target, uint64_t seed);

}  // namespace tile
