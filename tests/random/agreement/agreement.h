// Whether a result agrees with the reference interpreter's.
#pragma once

#include <string>
#include <vector>

#include "core/interpret/interpret.h"

namespace tile::test {

// Empty if `got` agrees with `expected`, which carries magnitudes; else where it first differs.
// Exact: bit for bit up to NaN payloads and the sign of zero. Otherwise a float may differ by a
// rounding of its type, and by roundings of f32 relative to the magnitude of what was summed.
std::string difference(const Interpretation& expected, const std::vector<HostTensor>& got,
                       bool exact);

}  // namespace tile::test
