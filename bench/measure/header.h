// The header lines of a workload's file (workload.h documents them).
#pragma once

#include <vector>

#include "bench/measure/workload.h"

namespace tile::bench {

// The cases of one file, in its order, each followed by its training step if there is one; none of
// a part of other workloads. Throws Failure (code "file") for a header that is wrong.
std::vector<Case> cases_in(const SourcePtr& source, Language language);

}  // namespace tile::bench
