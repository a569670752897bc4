// Extents of arguments that launches give.
#pragma once

#include <cstdint>
#include <span>

#include "core/nest/nest.h"

namespace tile::nest {

// The extent of the buffer's dimension 0 in a launch with these parameters, in the order of those
// of the nest that are given at launch. Throws InternalError where it has no value.
int64_t first_extent(const Nest& nest, const Buffer& buffer, std::span<const int64_t> parameters);

}  // namespace tile::nest
