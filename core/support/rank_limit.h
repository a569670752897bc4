// How many dimensions a tensor has at most: in programs, in what binding makes of them, and in the
// C interface.
#pragma once

#include <cstddef>

namespace tile {

inline constexpr size_t kMostDimensions = 64;

}  // namespace tile
