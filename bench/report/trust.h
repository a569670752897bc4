// Whether a peer runs as well as is known of it: a ratio to one that does not means nothing.
#pragma once

#include <string>

#include "bench/report/report.h"

namespace tile::bench {

// The reason why a row's ratios are not to be trusted; empty where no peer is below what it is
// known to reach. `type` is that of the case's first input.
std::string distrust(const Workload& workload, DType type, const Result& result);

}  // namespace tile::bench
