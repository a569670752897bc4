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

// A register tile of 4 x 32 with borders in both directions, as a schedule lowers it.
const char* const kTile = R"(
nest product
argument A: f32 [30, 70] strides [70, 1]
argument B: f32 [70, 90] strides [90, 1]
argument C: f32 [30, 90] strides [90, 1] written
registers acc: f32 [4, 32] strides [32, 1]
parallel t from [0] extent [24] grain 1 {
  alloc acc
  unrolled i from [0] extent [4] {
    unrolled j from [0] extent [2] {
      vector l from [0] extent [16] width 16 {
        assign acc[i, 16*j + l] () { %0:f32 = real 0.0; yield %0 }
      }
    }
  }
  serial k from [0] extent [70] {
    unrolled i1 from [0] extent [4] {
      if [29 - 4*floordiv(t, 3) - i1] {
        unrolled j1 from [0] extent [2] {
          vector l1 from [0] extent [min(16, 90 - 32*mod(t, 3) - 16*j1)] width 16 {
            fma acc[i1, 16*j1 + l1] (A[4*floordiv(t, 3) + i1, k], B[k, 32*mod(t, 3) + 16*j1 + l1]) { %0:f32 = load 0; %1:f32 = load 1; yield %0, %1 }
          }
        }
      }
    }
  }
  unrolled i2 from [0] extent [4] {
    if [29 - 4*floordiv(t, 3) - i2] {
      unrolled j2 from [0] extent [2] {
        vector l2 from [0] extent [min(16, 90 - 32*mod(t, 3) - 16*j2)] width 16 {
          assign C[4*floordiv(t, 3) + i2, 32*mod(t, 3) + 16*j2 + l2] (acc[i2, 16*j2 + l2]) { %0:f32 = load 0; yield %0 }
        }
      }
    }
  }
}
)";

TEST(CpuMatmul, TileWithBorders) { expect_as_interpreted(kTile); }
TEST(CpuMatmul, OneThread) { expect_as_interpreted(kTile, {.threads = 1}); }

}  // namespace
}  // namespace tile::cpu
