// Kernels under schedules, printed and run on the host, beside brute force.
#pragma once

#include <utility>
#include <vector>

#include "core/kernel/argument_layout.h"
#include "core/kernel/schedule.h"
#include "core/target/target.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {

// The nest interpreter and the printed text give what brute force gives, for kernels under legal
// schedules. Inputs are small integers, or made by `values`.
void expect_versions(const std::vector<std::pair<const Kernel*, Schedule>>& list,
                     const Target& target = h200_target(),
                     Values (*values)(const Kernel&, uint64_t seed) = small_integers);

// The same of inputs that are not dense. Strides are not negative; elements may share memory, and
// then all are what was stored there last.
struct StridedVersion {
  const Kernel* kernel = nullptr;
  Schedule schedule;
  Strides strides;
};
void expect_versions(const std::vector<StridedVersion>& list, const Target& target,
                     Values (*values)(const Kernel&, uint64_t seed));

}  // namespace tile::testing
