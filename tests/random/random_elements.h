// Random element programs: stencils with boundary rules, conditions on indices, index values and
// folds, as MFG and Lift make them.
#pragma once

#include <random>
#include <vector>

#include "core/ir/bound.h"
#include "core/ir/scalar.h"

namespace tile::test {

struct ElementOptions {
  bool large = false;      // sizes that leave an interior
  bool folds = true;       // loops inside elements
  bool reduces = true;     // sometimes a reduction over a window
  bool conditions = true;  // selects on comparisons of indices
  bool division = true;    // quotients and remainders of indices
};

struct ElementProgram {
  BoundProgram program;
  std::vector<HostTensor> inputs;
};
// One statement over an f32 tensor and an i32 tensor of small values.
ElementProgram random_elements(uint64_t seed, const ElementOptions& options);

}  // namespace tile::test
