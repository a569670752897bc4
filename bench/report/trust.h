// Whether a row's figures mean something: a ratio to a peer that does not run as well as is known
// of it does not, nor does the share of a ceiling that was passed.
#pragma once

#include <string>

#include "bench/report/report.h"

namespace tile::bench {

// The reason why a row is not to be trusted; empty where the ceiling holds and no peer is below
// what it is known to reach. `type` is that of the case's first input.
std::string distrust(const Workload& workload, DType type, const Result& result);

}  // namespace tile::bench
