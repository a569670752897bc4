// Loops and guards, of scalars and of lanes.
#include <gtest/gtest.h>

#include "backends/cpu/cpu_backend.h"
#include "core/support/diagnostic.h"
#include "tests/cpu/nests.h"

namespace tile::cpu {
namespace {

TEST(CpuControl, ExtentsThatAreZeroOrNegative) {
  expect_as_interpreted(R"(
nest extents
argument Z: i32 [8] strides [1] written
parameter n [-5, 9]
serial i from [-4] extent [9] {
  serial j from [i] extent [i] {
    add Z[mod(j, 8)] () { %0:i32 = int 1; yield %0 }
  }
  vector l from [0] extent [i] width 4 {
    add Z[l] () { %0:i32 = int 10; yield %0 }
  }
  vector one from [i] extent [min(i, 1)] width 1 {
    add Z[mod(one, 8)] () { %0:i32 = int 100; yield %0 }
  }
}
serial k from [0] extent [n] {
  add Z[7] () { %0:i32 = int 1000; yield %0 }
}
unrolled u from [3] extent [-2] {
  add Z[7] () { %0:i32 = int 7; yield %0 }
}
)",
                        {.parameters = {-3}});
}

TEST(CpuControl, ParametersInBoundsAndIndices) {
  const char* text = R"(
nest parameters
argument X: f32 [40] strides [1]
argument Z: f32 [40] strides [1] written
parameter n [0, 40]
parameter m [-40, 40]
parallel i from [floordiv(n, 4)] extent [n - floordiv(n, 4)] grain 3 {
  assign Z[i] (X[min(max(i + m, 0), 39)]) { %0:f32 = load 0; %1:f32 = size [m*i + n]; %2:f32 = add %0 %1; yield %2 }
}
)";
  for (int64_t n : {0, 1, 7, 40}) {
    expect_as_interpreted(text, {.parameters = {n, -2}});
    expect_as_interpreted(text, {.parameters = {n, 3}});
  }
}

// A loop written out in full would be too long: it runs as a serial one.
TEST(CpuControl, LongUnrolledLoops) {
  expect_as_interpreted(R"(
nest long
argument Z: i64 [1] strides [1] written
registers r: i64 [4] strides [1]
alloc r
unrolled i from [0] extent [100000] {
  assign r[mod(i, 4)] () { %0:i64 = size [i]; yield %0 }
  add Z[0] (r[mod(i, 4)]) { %0:i64 = load 0; yield %0 }
}
)");
}

// Long straight-line code is cut into blocks.
TEST(CpuControl, ManyStoresWrittenOut) {
  expect_as_interpreted(R"(
nest many
argument X: i32 [20, 20] strides [20, 1]
argument Z: i32 [20, 20] strides [20, 1] written
registers r: i32 [4] strides [1]
serial k from [0] extent [2] {
  alloc r
  unrolled i from [0] extent [20] {
    unrolled j from [0] extent [20] {
      assign r[mod(i + j, 4)] (X[j, i]) { %0:i32 = load 0; yield %0 }
      add Z[i, j] (r[mod(i + j, 4)], X[0, 0]) { %0:i32 = load 0; %1:i32 = load 1; %2:i32 = add %0 %1; yield %2 }
    }
  }
}
)",
                        {.targets = {"native"}});
}

TEST(CpuControl, TooMuchCodeIsALimit) {
  nest::Nest nest = parse(R"(
nest long
argument Z: i64 [1] strides [1] written
unrolled i from [0] extent [512] { unrolled j from [0] extent [512] {
  add Z[0] () { %0:i64 = size [i*j]; yield %0 }
} }
)");
  try {
    shared_backend()->compile(nest, shared_backend()->target());
    FAIL();
  } catch (const Failure& f) {
    EXPECT_EQ(f.diagnostic().code, "limit");
    EXPECT_EQ(f.diagnostic().stage, Stage::compile);
  }
}

// Bounds that differ by lane, inside a masked vector loop.
TEST(CpuControl, TriangularLoopsByLane) {
  expect_as_interpreted(R"(
nest triangle
argument X: f32 [13, 13] strides [13, 1]
argument Y: f32 [13] strides [1]
argument Z: f32 [13] strides [1] written
serial b from [0] extent [2] {
  vector i from [8*b] extent [min(8, 13 - 8*b)] width 8 {
    serial k from [0] extent [i + 1] {
      fma Z[i] (X[i, k], Y[k]) { %0:f32 = load 0; %1:f32 = load 1; yield %0, %1 }
    }
    serial j from [i] extent [min(3, 13 - i)] {
      add Z[i] (Y[j]) { %0:f32 = load 0; yield %0 }
    }
    unrolled u from [i] extent [2] {
      if [12 - u] {
        add Z[i] (X[u, 12 - u]) { %0:f32 = load 0; yield %0 }
      }
    }
  }
}
)");
}

TEST(CpuControl, GuardsOnLanesAndOnScalars) {
  expect_as_interpreted(R"(
nest guards
argument X: i32 [4, 11] strides [11, 1]
argument Z: i32 [4, 11] strides [11, 1] written
argument S: i32 [4] strides [1] written
serial i from [0] extent [4] {
  vector l from [0] extent [11] width 16 {
    if [i - 1, l - 3, 9 - l] {
      assign Z[i, l] (X[i - 1, l - 3]) { %0:i32 = load 0; yield %0 }
      add S[i] (X[i, 9 - l]) { %0:i32 = load 0; yield %0 }
    } else {
      add Z[i, l] (X[3 - i, 0]) { %0:i32 = load 0; yield %0 }
      if [2 - i] {
        add S[i] (X[i, l]) { %0:i32 = load 0; yield %0 }
      }
    }
    if [5 - l*l] {
      add S[i] (X[i, l*l]) { %0:i32 = load 0; yield %0 }
    }
    if [l - 100] {
      add S[i] (X[i, l - 100]) { %0:i32 = load 0; yield %0 }
    }
  }
}
)");
}

// The predicate reads only where the other conditions hold.
TEST(CpuControl, Predicates) {
  expect_as_interpreted(R"(
nest predicates
argument X: f32 [12] strides [1]
argument I: i32 [12] strides [1]
argument Z: f32 [12] strides [1] written
serial i from [0] extent [12] {
  if [i - 2] when (X[i - 2], I[i]) { %0:f32 = load 0; %1:f32 = real 0.0; %2:bool = gt %0 %1; yield %2 } {
    add Z[i] (X[i]) { %0:f32 = load 0; yield %0 }
  } else {
    add Z[i] () { %0:f32 = real 100.0; yield %0 }
  }
}
vector l from [0] extent [12] width 16 {
  if [l - 2] when (X[l - 2], I[l]) { %0:f32 = load 0; %1:i32 = load 1; yield %1 } {
    add Z[l] (X[l - 2]) { %0:f32 = load 0; yield %0 }
  } else {
    multiply Z[l] () { %0:f32 = real -2.0; yield %0 }
  }
  if [] when (X[3]) { %0:f32 = load 0; yield %0 } {
    add Z[l] () { %0:f32 = real 7.0; yield %0 }
  }
}
serial k from [0] extent [3] {
  vector m from [0] extent [4] width 4 {
    if [1 - k, m - 1] when (I[4*k + m - 1]) { %0:i32 = load 0; yield %0 } {
      add Z[m] () { %0:f32 = real 0.5; yield %0 }
    } else {
      add Z[m] () { %0:f32 = real 0.25; yield %0 }
    }
  }
}
)");
}

// Lanes of a vector loop whose count is no power of two, and vectors wider than a register.
TEST(CpuControl, OddWidths) {
  for (int width : {1, 2, 3, 5, 12, 33, 64}) {
    std::string w = std::to_string(width);
    SCOPED_TRACE(w);
    expect_as_interpreted(
        "nest odd\nargument X: f64 [70] strides [1]\nargument Z: f64 [70] strides [1] "
        "written\nregisters r: f64 [64] strides [1]\nalloc r\nvector l from [0] extent [" +
        w + "] width " + w +
        R"( { assign r[l] (X[l]) { %0:f64 = load 0; yield %0 } }
vector m from [0] extent [)" +
        w + "] width " + w +
        R"( { add Z[m] (r[m], X[69 - m]) { %0:f64 = load 0; %1:f64 = load 1; %2:f64 = add %0 %1; yield %2 } }
)");
  }
}

TEST(CpuControl, ZeroSizedTensors) {
  expect_as_interpreted(R"(
nest zero
argument X: f32 [0, 4] strides [4, 1]
argument Z: f32 [4] strides [1] written
parallel j from [0] extent [4] grain 1 {
  assign Z[j] () { %0:f32 = real 5.0; yield %0 }
  serial i from [0] extent [0] {
    add Z[j] (X[i, j]) { %0:f32 = load 0; yield %0 }
  }
}
parallel k from [0] extent [0] grain 1 {
  assign Z[k] () { %0:f32 = real 9.0; yield %0 }
}
)");
}

}  // namespace
}  // namespace tile::cpu
