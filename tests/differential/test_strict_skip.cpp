// rule 4.12: the CPU backend never computes a skipped point, not even times zero.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/executors/run_backends.h"
#include "tests/random/agreement/agreement.h"

namespace tile::test {
namespace {

// A convolution whose first tap is infinite and last tap NaN: cells at the borders skip them.
void expect_borders_stay_finite(int64_t size, const std::string& features) {
  RandomCase drawn;
  drawn.text =
      "function (I[N, C], K[L, C, D]) -> (O) { O[x, d: N, D] = +(I[x + k - 1, c] * K[k, c, d]); }";
  drawn.types = {{DType::f32, {size, 3}}, {DType::f32, {3, 3, 21}}};
  for (const InputType& type : drawn.types) drawn.inputs.emplace_back(type.type, type.shape);
  for (int64_t i = 0; i < size * 3; ++i) {
    drawn.inputs[0].set(i, integer_scalar(i % 3 + 1, DType::f32));
  }
  // K[k, c, d] at 63 k + 21 c + d: the first tap is infinite for small d, the last NaN for large d.
  for (int64_t i = 0; i < 189; ++i) {
    double value = static_cast<double>(i % 2);
    if (i < 10) value = std::numeric_limits<double>::infinity();
    if (i >= 126 + 11 && i < 126 + 21) value = std::nan("");
    drawn.inputs[1].set(i, real_scalar(value, DType::f32));
  }
  std::shared_ptr<const Executable> e = compiled(test_engine("cpu", features), drawn);
  Interpretation expected = interpret(e->bound, drawn.inputs, {}, true);
  int finite = 0, other = 0;
  for (int64_t i = 0; i < expected.outputs[0].count(); ++i) {
    ++(std::isfinite(expected.outputs[0].at(i).f) ? finite : other);
  }
  EXPECT_GT(finite, 0);
  EXPECT_EQ(other > 0, size > 1);
  EXPECT_EQ(difference(expected, run_code(*e, drawn.inputs), true), "");
}

TEST(StrictSkip, BordersOfAConvolution) {
  for (int64_t size : {1, 2, 3, 7, 40, 257}) {
    expect_borders_stay_finite(size, "");
    expect_borders_stay_finite(size, "avx2");
  }
}

}  // namespace
}  // namespace tile::test
