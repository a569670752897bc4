// Forward-mode derivatives of typed regions, folds inside them included.
#pragma once

#include <vector>

#include "core/ir/body.h"

namespace tile {

// The region's results, floats of `type`, followed by the derivative of each with respect to each
// of the arguments `directions`, of the same type, result by result; a derivative that is zero
// everywhere is a literal. Loads, integers and the other arguments carry no derivative.
Body with_tangents(const Body& region, const std::vector<size_t>& directions, DType type);

}  // namespace tile
