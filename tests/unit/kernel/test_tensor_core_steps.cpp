// Steps of products on tensor cores that are boxes over several reductions, as gradients of filters
// have them: their nests run by the interpreter against brute force.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/kernel/argument_layout.h"
#include "core/kernel/forms/tensor_core_gemm.h"
#include "core/nest/passes/nest_passes.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/tensor_core_gemm_space.h"
#include "tests/support/narrow_filter_gradient.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

Target lenient(Target target) {
  target.strict_skip = false;
  return target;
}

// How many values of n, y and x a step has; empty: the kernel is no product on tensor cores.
std::vector<int64_t> step_of(const Kernel& kernel, const Target& target) {
  std::vector<Schedule> all = tensor_cores::schedules(kernel, target, 1);
  if (all.empty()) return {};
  const std::vector<int64_t>& tile = all[0].stages[0][0].form<TensorCoreGemm>()->tile;
  return {tile.end() - 3, tile.end()};
}

void expect_agrees(const Kernel& kernel, const Target& target) {
  Values inputs = small_integers(kernel, 5), expected = inputs;
  brute_force(kernel, expected);
  std::vector<Schedule> all = tensor_cores::schedules(kernel, target, 1);
  ASSERT_FALSE(all.empty()) << print(kernel);
  for (int64_t split : {1, 2}) {
    all[0].stages[0][0].form<TensorCoreGemm>()->split = split;
    if (!illegal(all[0], kernel, target).empty()) continue;
    nest::Nest nest = lower(kernel, all[0], target);
    nest::verify(nest);
    ASSERT_EQ(difference(kernel, expected, run_nest(nest, kernel, inputs)), "") << print(all[0]);
    nest::Nest passed = nest::run_passes(nest, target);
    ASSERT_EQ(difference(kernel, expected, run_nest(passed, kernel, inputs)), "");
  }
}

TEST(TensorCoreSteps, BoxesHaveAsFewZerosAsCanBe) {
  Target target = lenient(h200_target());
  auto step = [&](int64_t batch, int64_t height, int64_t width) {
    return step_of(filter_gradient({batch, height, width}), target);
  };
  using Box = std::vector<int64_t>;
  EXPECT_EQ(step(1, 128, 128), (Box{1, 1, 64}));
  EXPECT_EQ(step(4, 8, 24), (Box{1, 8, 8}));
  EXPECT_EQ(step(16, 14, 14), (Box{16, 2, 2}));
  EXPECT_EQ(step(16, 7, 7), (Box{8, 1, 8}));  // an eighth is zeros
}

TEST(TensorCoreSteps, ZerosMeetNoInfinityWhereSkippedPointsMustNotRule4_12) {
  Filter whole{2, 8, 8}, odd{2, 7, 9};
  whole.pad = odd.pad = 0;
  EXPECT_EQ(step_of(filter_gradient(whole), h200_target()), (std::vector<int64_t>{1, 8, 8}));
  // Behind the last picture there are none of both factors.
  EXPECT_EQ(step_of(filter_gradient(odd), h200_target()), (std::vector<int64_t>{64, 1, 1}));
  EXPECT_EQ(step_of(filter_gradient(odd), lenient(h200_target())), (std::vector<int64_t>{2, 8, 4}));
}

TEST(TensorCoreSteps, FilterGradientsOfEverySizeAndStride) {
  for (const Target& target : {lenient(h200_target()), lenient(a100_target())}) {
    expect_agrees(filter_gradient({2, 8, 8, 64, 64, 2}), target);
    expect_agrees(filter_gradient({3, 7, 9, 40, 72, 2, 1, 1, 1, DType::f16}), target);
    expect_agrees(filter_gradient({2, 5, 6, 72, 40, 2, 2, 1, 1}), target);
    expect_agrees(filter_gradient({1, 9, 10, 64, 64, 2, 1, 3, 2}), target);
    expect_agrees(filter_gradient({2, 6, 7, 64, 64, 1, 2, 1, 0}), target);
  }
}

// Lines of channels that no bulk copy takes, and types that wgmma takes with neighbours in k only.
TEST(TensorCoreSteps, ThreadsCopyTheOthers) {
  Target target = lenient(h200_target());
  auto by_threads = [&](const Filter& f) {
    Kernel kernel = filter_gradient(f);
    const Contraction& c = kernel.stages[0].contraction;
    auto found = tensor_cores::product_of(c.pieces[0], c, kernel, target, argument_layouts(kernel));
    EXPECT_TRUE(found && !found->bulk && found->k.size() == 3);
    expect_agrees(kernel, target);
  };
  by_threads({2, 5, 7, 37, 66});
  target.precision = Precision::tf32;
  by_threads({2, 5, 7, 32, 40, 3, 1, 1, 1, DType::f32});
}

}  // namespace
}  // namespace tile::testing
