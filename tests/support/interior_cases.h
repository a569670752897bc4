// Every stencil and filter of the suites, and their loop nests on a target: what the tests of
// interiors run over.
#pragma once

#include <vector>

#include "core/ir/scalar.h"
#include "core/nest/nest.h"
#include "core/passes/bind/bind.h"
#include "core/target/target.h"

namespace tile::test {

struct InteriorCase {
  const char* path;
  std::vector<Shape> shapes;            // of the inputs that are no run-time parameters, in order
  const char* inherent_llvm = nullptr;  // choices in LLVM IR that no schedule can spare
};
const std::vector<InteriorCase>& interior_cases();

// The case's program, bound to its shapes or to others.
BoundProgram bound(const InteriorCase& c, const std::vector<Shape>& shapes);
// Values for its inputs: small random numbers, and the run-time parameters' first values.
std::vector<HostTensor> random_inputs(const InteriorCase& c, const BoundProgram& program,
                                      uint64_t seed);
// The nests of its kernels under the analytic schedules, as lowered.
std::vector<nest::Nest> lowered_nests(const InteriorCase& c, const Target& target);

// A GPU nest with only one side of the tests that whole blocks take: the interior, or all else.
nest::Nest block_side(nest::Nest nest, bool interior);

}  // namespace tile::test
