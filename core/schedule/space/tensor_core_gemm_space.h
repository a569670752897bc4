// The space of schedules for tensor cores.
#pragma once

#include <cstddef>
#include <vector>

#include "core/kernel/forms/tensor_core_gemm.h"

namespace tile::tensor_cores {

// Schedules of a whole kernel, best first by the model, at most `limit`; none unless the kernel is
// one stage of such products with stages attached to it.
std::vector<Schedule> schedules(const Kernel& kernel, const Target& target, size_t limit,
                                const Strides& strides = {});

// The best schedule that needs no tensor cores.
Schedule schedule_without(const Kernel& kernel, const Target& target);

}  // namespace tile::tensor_cores
