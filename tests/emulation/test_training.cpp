// Whole programs and gradients on the emulated GPU, races detected: the layers that people train,
// random programs of many statements, gradients of random programs.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/emulation/cases.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/agreement/gradient_case.h"
#include "tests/random/agreement/whole_agreement.h"
#include "tests/random/random_source.h"
#include "tests/random/random_whole.h"
#include "tests/random/training_programs.h"
#include "tests/support/run_tile.h"

namespace tile::test {
namespace {

// Relative to the largest element of each output: roundings in the middle of a training program are
// of the size of what is there, and cancel where gradients are small.
std::string far(const EmulatedCase& c, const std::vector<HostTensor>& got) {
  return far_from_largest(c, got, [](DType type) { return type == DType::f32 ? 2e-5 : 0.06; });
}

struct Size {
  int64_t rows, columns;
};
Size size_of(uint64_t seed) {
  constexpr Size kSizes[] = {{6, 40}, {5, 64}, {17, 33}, {2, 260}};
  if (seed < 4) return kSizes[seed];
  RandomSource random(seed);
  return {random.in(1, 24), random.in(1, 200)};
}

class TrainingOnGpu : public ::testing::TestWithParam<size_t> {};

TEST_P(TrainingOnGpu, GradientsAgree) {
  const TrainingProgram& program = training_programs()[GetParam()];
  for (const Target& target : {h200_target(), a100_target()}) {
    std::vector<EmulatedCase> cases;
    for (uint64_t seed : seeds(0, 2)) {
      auto [rows, columns] = size_of(seed);
      if (program.name == "convolution_block") columns = 1 + columns % 9;
      if (program.name == "transformer_block") columns = std::min<int64_t>(columns, 64);
      for (DType type : {DType::f32, DType::bf16}) {
        RandomCase drawn = training_case(program, type, rows, columns, true);
        cases.push_back(lowered(seed, seed < 2 ? 0 : seed, drawn, target));
      }
    }
    expect_emulated(cases, target, far);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, TrainingOnGpu, ::testing::Range<size_t>(0, 8),
                         [](const auto& tested) { return training_programs()[tested.param].name; });

TEST(EmulatedWhole, RandomPrograms) {
  std::vector<EmulatedCase> cases;
  std::vector<WholeCase> drawn;
  for (uint64_t seed : seeds(0, 12)) drawn.push_back(case_of(random_whole(seed)));
  for (size_t i = 0; i < drawn.size(); ++i) {
    std::vector<InputType> types = types_for(drawn[i], drawn[i].drawn.inputs);
    cases.push_back(
        lowered(i, i % 3, drawn[i].drawn, tile::bind(*drawn[i].program, types), h200_target()));
  }
  expect_emulated(cases, h200_target(),
                  [&](const EmulatedCase& c, const std::vector<HostTensor>& got) {
                    return Expectation(drawn[c.seed]).disagreement(got);
                  });
}

TEST(EmulatedWhole, GradientsOfRandomPrograms) {
  std::vector<EmulatedCase> cases;
  for (uint64_t seed : seeds(0, 30)) {
    RandomCase drawn;
    if (!gradient_case(seed, drawn)) continue;
    EmulatedCase c = lowered(seed, seed % 3, drawn, h200_target());
    if (!overflows(c.expected.outputs)) cases.push_back(std::move(c));
  }
  EXPECT_FALSE(cases.empty());
  expect_emulated(cases, h200_target(),
                  [](const EmulatedCase& c, const std::vector<HostTensor>& got) {
                    return difference(c.expected, got, false);
                  });
}

}  // namespace
}  // namespace tile::test
