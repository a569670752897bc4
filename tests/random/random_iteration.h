// Random steps in time for Lift's Iterate: stencils of one to three dimensions with every boundary
// rule, steps of single elements, and steps that read a second array.
#pragma once

#include <string>
#include <vector>

#include "tests/random/random_source.h"

namespace tile::test {

struct RandomIteration {
  std::vector<int64_t> shape;  // of the state and of the second array
  std::string step;            // a function on the state, which may read the array c
  bool single_elements = false;

  // val f = fun(…, (u, c) => Iterate(count, step) $ u)
  std::string text(int64_t count) const;
  // The step written `count` times, by `o`.
  std::string composed(int64_t count) const;
};
RandomIteration random_iteration(RandomSource& random);

}  // namespace tile::test
