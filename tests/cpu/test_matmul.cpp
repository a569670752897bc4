// Matrix products as nests: the register tile, its borders, threads.
#include <gtest/gtest.h>

#include "backends/cpu/cpu_backend.h"
#include "tests/cpu/nests.h"

namespace tile::cpu {
namespace {

// C[i, j] += A[i, k] * B[k, j], one element at a time.
TEST(CpuMatmul, Scalar) {
  expect_as_interpreted(R"(
nest product
argument A: f32 [5, 7] strides [7, 1]
argument B: f32 [7, 6] strides [6, 1]
argument C: f32 [5, 6] strides [6, 1] written
serial i from [0] extent [5] {
  serial j from [0] extent [6] {
    assign C[i, j] () { %0:f32 = real 0.0; yield %0 }
    serial k from [0] extent [7] {
      fma C[i, j] (A[i, k], B[k, j]) { %0:f32 = load 0; %1:f32 = load 1; yield %0, %1 }
    }
  }
}
)");
}

}  // namespace
}  // namespace tile::cpu
