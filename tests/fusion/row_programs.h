// Random programs of many statements that share rows and columns: norms, softmax variants, sums of
// columns, pools, stencils, products, conditions that leave cells empty. What fusions meet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/bound.h"
#include "core/ir/scalar.h"

namespace tile::test {

struct RowProgram {
  std::string text;
  std::vector<InputType> types;
  std::vector<HostTensor> inputs;
  // Only sums, products and extrema of small integers: every order gives the same bits.
  bool exact = true;
};

RowProgram row_program(uint64_t seed);

}  // namespace tile::test
