// Kernels under schedules, printed and run on the host, beside brute force.
#pragma once

#include <utility>
#include <vector>

#include "core/kernel/schedule.h"
#include "core/target/target.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {

// The nest interpreter and the printed text give what brute force gives, for kernels under legal
// schedules. Inputs are small integers, or made by `values`.
void expect_versions(const std::vector<std::pair<const Kernel*, Schedule>>& list,
                     const Target& target = h200_target(),
                     Values (*values)(const Kernel&, uint64_t seed) = small_integers);

}  // namespace tile::testing
