// Programs lowered for a GPU and run by the emulation, beside the reference interpreter.
#pragma once

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "core/interpret/interpret.h"
#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/nest/nest.h"
#include "tests/random/random_program.h"

namespace tile::test {

// One kernel of a program.
struct EmulatedLaunch {
  nest::Nest nest;
  std::vector<TensorId> arguments;
};

// A program, lowered; its launches are numbered from `first` on among all programs'.
struct EmulatedCase {
  uint64_t seed = 0;
  RandomCase drawn;
  BoundProgram program;
  std::vector<std::variant<EmulatedLaunch, Sort>> steps;
  Interpretation expected;
  size_t first = 0;
};

// The program with inputs of f32 between -1 and 1, the same for the same seed.
RandomCase random_inputs(uint64_t seed, const std::string& text, const std::vector<Shape>& shapes);

using PickSchedule = std::function<Schedule(const Kernel&)>;
EmulatedCase lowered(uint64_t seed, const PickSchedule& pick, RandomCase drawn,
                     BoundProgram program, const Target& target);
// `schedule` 0 is the analytic pick, others are random ones.
EmulatedCase lowered(uint64_t seed, uint64_t schedule, RandomCase drawn, BoundProgram program,
                     const Target& target);
EmulatedCase lowered(uint64_t seed, uint64_t schedule, const RandomCase& drawn,
                     const Target& target);

// A program's text without roundings to 16 bits: for inputs of f32.
std::string unrounded(std::string text);
// Empty where the results are what they must be, else what is wrong.
// What is further from the reference than `allowed` (by the output's type) times the largest
// element of its output, as no result may be where it is rounded in between; empty: nothing is.
std::string far_from_largest(const EmulatedCase& c, const std::vector<HostTensor>& got,
                             const std::function<double(DType)>& allowed);

using Compare = std::function<std::string(const EmulatedCase&, const std::vector<HostTensor>&)>;
// Compiles all kernels together and runs the cases; races are failures too.
void expect_emulated(const std::vector<EmulatedCase>& cases, const Target& target,
                     const Compare& compare);
// As difference(); with `close`, as where what follows a sum cancels most of it.
void expect_emulated_agree(const std::vector<EmulatedCase>& cases, const Target& target,
                           bool close = false);

}  // namespace tile::test
