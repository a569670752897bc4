// Sums whose reduction is blocked.
#include <gtest/gtest.h>

#include "core/schedule/legality/legality.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

constexpr float kLarge = 1 << 24;  // and one more is no other f32

// One row of ones, but for a first element that takes no single one, times columns of ones.
float last_column(int64_t terms, const std::string& outer) {
  Kernel kernel = matrix_product(1, 8, terms);
  Values inputs = small_integers(kernel, 1);
  for (TensorId id : kernel.reads) {
    for (int64_t i = 0; i < inputs[id].count(); ++i) {
      inputs[id].set(i, real_scalar(1, DType::f32));
    }
  }
  inputs[kernel.reads[0]].set(0, real_scalar(kLarge, DType::f32));
  Schedule schedule = parse_schedule("schedule {\n stage {\n  piece outer (" + outer +
                                     ") reduce (2:1 serial) tile (1:1 vector)\n }\n}\n");
  Target target = small_target();
  nest::Nest nest = lower(kernel, schedule, target);
  Values results = run_nest(nest, kernel, inputs);
  return static_cast<float>(results[kernel.writes[0]].at(7).f);
}

// The error of a sum grows with its terms: a chain of additions to a large sum would lose every
// one of them, those of a block are added first.
TEST(BlockedSums, BlocksAreSummedApart) {
  EXPECT_EQ(last_column(512, "0:1 serial, 1:8 serial"), kLarge);
  EXPECT_EQ(last_column(512, "0:1 serial, 1:8 serial, 2:64 serial"), kLarge + 7 * 64);
  EXPECT_EQ(last_column(500, "0:1 serial, 1:8 serial, 2:64 serial"), kLarge + 6 * 64 + 52);
}

}  // namespace
}  // namespace tile::testing
