// Gradients of random programs.
#pragma once

#include "tests/random/random_program.h"

namespace tile::test {

// The gradient of a random program's last output with respect to all its f32 inputs; false if the
// program has no exact f32 result. Values are small integers, so that what is tied is tied on every
// backend.
bool gradient_case(uint64_t seed, RandomCase& result);

// Sums that overflow depend on the order of their terms.
bool overflows(const std::vector<HostTensor>& outputs);

}  // namespace tile::test
