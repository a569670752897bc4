// Schedules of equal kernels are found once, and are those that would be found.
#include <gtest/gtest.h>

#include "core/schedule/space/candidates.h"
#include "core/schedule/space/remembered_schedules.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

std::vector<Kernel> kernels() {
  return {matrix_product(64, 96, 80),
          matrix_product(64, 96, 81),
          matrix_product(64, 96, 80, DType::bf16),
          convolution(1, 14, 16, 32, 3, 1, 1),
          row_sum(50, 300, false),
          row_sum(50, 300, true),
          matrix_bias_gelu(40, 50, 60)};
}

TEST(RememberedSchedules, AreThoseThatWouldBeFound) {
  Target target = wide_target();
  std::vector<Schedule> plain;
  for (const Kernel& kernel : kernels()) plain.push_back(analytic_schedule(kernel, target));
  RememberedSchedules remembered(target);
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < plain.size(); ++i) {
      EXPECT_EQ(analytic_schedule(kernels()[i], target), plain[i]);
    }
    // Another size or type is another kernel.
    EXPECT_EQ(remembered.found(), static_cast<size_t>(round) * plain.size());
  }
}

TEST(RememberedSchedules, NamesMakeNoDifference) {
  Target target = wide_target();
  RememberedSchedules remembered(target);
  Kernel kernel = matrix_product(64, 96, 80);
  Schedule first = analytic_schedule(kernel, target);
  kernel.name = "another";
  EXPECT_EQ(analytic_schedule(kernel, target), first);
  EXPECT_EQ(remembered.found(), 1U);
}

TEST(RememberedSchedules, AreOfOneTargetAndOneScope) {
  Target target = wide_target(), other = small_target();
  Kernel kernel = matrix_product(64, 96, 80);
  Schedule narrow = analytic_schedule(kernel, other);
  {
    RememberedSchedules remembered(target);
    analytic_schedule(kernel, target);
    EXPECT_EQ(analytic_schedule(kernel, other), narrow);
    EXPECT_EQ(remembered.found(), 0U);
    {
      RememberedSchedules inner(other);
      EXPECT_EQ(RememberedSchedules::of(target), nullptr);
      EXPECT_EQ(RememberedSchedules::of(other), &inner);
    }
    EXPECT_EQ(RememberedSchedules::of(target), &remembered);
  }
  EXPECT_EQ(RememberedSchedules::of(target), nullptr);
}

TEST(RememberedSchedules, ShortProgramsRememberNothing) {
  Target target = wide_target();
  RememberedSchedules remembered(target, RememberedSchedules::kRepeatsParts - 1);
  EXPECT_EQ(RememberedSchedules::of(target), nullptr);
}

}  // namespace
}  // namespace tile::testing
