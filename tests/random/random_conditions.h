// Random Tile programs around conditions: sums and extrema whose index a constraint solves, cells
// without points, windows over steps, bodies that select by indices, run-time scalars among lanes
// that are numbers; then statements that fuse with them. Dimensions are small: 1, 2, 3, primes.
#pragma once

#include <string>
#include <vector>

#include "core/ir/bound.h"
#include "core/ir/scalar.h"

namespace tile::test {

struct ConditionCase {
  std::string text;  // of the inputs D, X and P, to O
  std::vector<InputType> types;
  std::vector<HostTensor> inputs;  // whole numbers from -2 to 2, so that there are ties
};
// `special`: some inputs are NaN or infinite.
ConditionCase random_conditions(uint64_t seed, bool special = false);

}  // namespace tile::test
