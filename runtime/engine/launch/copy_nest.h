// Copies between two layouts of one shape as a nest, for a device whose memory the host cannot
// walk.
#pragma once

#include "core/nest/nest.h"
#include "core/target/target.h"

namespace tile {

// Arguments: from (element strides `from`), to (element strides `to`, not negative). Bits are
// copied whatever they mean. `type` has `shape` elements; empty strides: dense row-major.
nest::Nest copy_nest(DType type, const Shape& shape, const std::vector<int64_t>& from,
                     const std::vector<int64_t>& to);

// The loop over [0, extent) with one statement, for nests that are made by hand.
nest::For loop_around(const char* variable, int64_t extent, nest::LoopKind kind,
                      nest::Statement inner);

}  // namespace tile
