// Generated gradients against central differences, in f64 through the reference interpreter.
#pragma once

#include <string>
#include <vector>

#include "core/interpret/interpret.h"
#include "core/ir/program.h"
#include "tests/random/random_source.h"

namespace tile::test {

// The outputs of `program` on `inputs`.
std::vector<HostTensor> outputs_of(const Program& program, const std::vector<HostTensor>& inputs);

// Real values of both signs, none near zero.
HostTensor random_reals(RandomSource& random, const Shape& shape);

enum class Agreement : uint8_t {
  agrees,
  undecided,  // the differences do not converge: a kink or a jump lies within the step
  differs,
};

// A gradient to check: that of output `of` with respect to the inputs `wrt`.
struct GradientCheck {
  const Program& program;
  std::string of;
  std::vector<std::string> wrt;
  std::vector<HostTensor> inputs;
};

// Compares <gradient, direction> with the change of <output, seed> along random directions, one for
// each input. Every input that is asked for has type f64. `report` says what differs.
Agreement compare_with_differences(const GradientCheck& check, RandomSource& random,
                                   std::string& report);

}  // namespace tile::test
