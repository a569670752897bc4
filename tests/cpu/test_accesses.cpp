// Reads and writes: strides, masks, values as indices, register cells, other memory.
#include <gtest/gtest.h>

#include "backends/cpu/plan/plan.h"
#include "tests/cpu/nests.h"

namespace tile::cpu {
namespace {

TEST(CpuAccesses, StridesOfEveryKind) {
  for (const char* type : {"f32", "i8", "f64", "bool", "bf16"}) {
    for (int stride : {-3, -1, 0, 1, 2, 3, 5, 100}) {
      std::string t(type), s = std::to_string(stride);
      SCOPED_TRACE(t + " stride " + s);
      std::string body = "{ %0:" + t + " = load 0; yield %0 }";
      expect_as_interpreted("nest strides\nargument X: " + t + " [21] strides [" + s +
                            "]\nargument Z: " + t + " [21] strides [1] written\n" +
                            "vector l from [0] extent [16] width 16 { assign Z[l] (X[l]) " + body +
                            " }\nvector m from [16] extent [5] width 8 { assign Z[m] (X[m]) " +
                            body + " }\n");
    }
  }
}

// Neighbours under a clamp of the lane number: whole vectors, vectors with lanes off, ends that cut
// many lanes, one end and both, and a clamp of a row beside it.
TEST(CpuAccesses, ClampedNeighbours) {
  for (const char* type : {"f32", "u8", "f64", "bool", "i16"}) {
    for (const char* lane : {"-3", "2", "-20", "18"}) {
      std::string t(type), shift(lane);
      SCOPED_TRACE(t + " shift " + shift);
      std::string load = "{ %0:" + t + " = load 0; yield %0 }";
      std::string low = "max(0, l + " + shift + ")", high = "min(39, l + " + shift + ")";
      std::string both = "min(39, max(0, 16*i + l + " + shift + "))";
      expect_as_interpreted(
          "nest clamps\nargument X: " + t + " [3, 60] strides [60, 1]\nargument Z: " + t +
          " [3, 3, 60] strides [180, 60, 1] written\nserial i from [0] extent [2] {\n" +
          "vector l from [20] extent [16] width 16 { assign Z[0, i, l] (X[max(0, i - 1), " + low +
          "]) " + load + " }\nvector l from [20] extent [13] width 16 { assign Z[1, i, l] (X[i, " +
          high + "]) " + load +
          " }\nvector l from [0] extent [16] width 16 { assign Z[2, i, 16*i + l] (X[i, " + both +
          "]) " + load + " }\n}\n");
    }
  }
}

// Vectors under a guard that varies, while constants leave whole registers of lanes off: the last
// vector of a loop, and one whose first lanes are off. Such registers lie outside of the tensors,
// and LLVM reads them if their part of the mask is given to it.
TEST(CpuAccesses, RegistersThatConstantsLeaveOff) {
  for (const char* type : {"f32", "f64"}) {
    for (int stride : {1, 3, 7}) {
      std::string t(type), s = std::to_string(stride);
      SCOPED_TRACE(t + " stride " + s);
      std::string x = " [5, " + s + "] strides [" + s + ", 1]";
      std::string add = " { %0:" + t + " = load 0; yield %0 }\n";
      expect_as_interpreted(
          "nest tails\nargument X: " + t + x + "\nargument Y: " + t + x +
          " written\nserial s from [0] extent [3] {\n" +
          "vector l from [0] extent [2] width 8 { if [1 - l - s] { add Y[l + s, " +
          "0] (X[l + s, 0])" + add +
          "} }\nvector m from [0] extent [5] width 16 { if [4 - m - s] { " +
          "add Y[m + s, 0] (X[m + s, 0])" + add +
          "} }\nvector n from [0] extent [32] width 32 { if [n - 27] { " +
          "if [31 - n - s] { add Y[n - 27, 0] (X[n - 27, 0])" + add + "} } }\n}\n");
    }
  }
}

TEST(CpuAccesses, StridedStores) {
  for (int stride : {1, 2, 3, 7}) {
    std::string s = std::to_string(stride);
    SCOPED_TRACE(s);
    expect_as_interpreted(
        "nest strides\nargument X: f32 [20] strides [1]\nargument Z: f32 [20] strides [" + s +
        R"(] written
vector l from [0] extent [8] width 8 { assign Z[l] (X[l]) { %0:f32 = load 0; yield %0 } }
vector m from [8] extent [12] width 16 { add Z[27 - m] (X[m]) { %0:f32 = load 0; yield %0 } }
)");
  }
}

TEST(CpuAccesses, DiagonalAndQuotients) {
  expect_as_interpreted(R"(
nest odd
argument X: f32 [16, 16] strides [16, 1]
argument Z: f32 [16] strides [1] written
serial i from [0] extent [3] {
  vector l from [0] extent [11 + i] width 16 {
    add Z[l] (X[l, l], X[floordiv(l, 3), mod(5*l + i, 7)], X[(l < 4 ? 2 : l), max(l - 3, 0)]) { %0:f32 = load 0; %1:f32 = load 1; %2:f32 = load 2; %3:f32 = add %0 %1; %4:f32 = add %3 %2; yield %4 }
  }
}
)");
}

TEST(CpuAccesses, GatherByValue) {
  expect_as_interpreted(R"(
nest gather
argument I: u8 [19] strides [1]
argument X: f64 [7, 5] strides [5, 1]
argument Z: f64 [19, 5] strides [5, 1] written
serial j from [0] extent [5] {
  serial i from [0] extent [3] {
    vector l from [8*i] extent [min(8, 19 - 8*i)] width 8 {
      assign Z[l, j] (I[l], X[%0, j]) { %0:u8 = load 0; %1:f64 = load 1 %0; yield %1 }
    }
  }
}
serial a from [0] extent [19] {
  vector b from [0] extent [5] width 8 {
    add Z[a, b] (I[a], X[%0, b]) { %0:u8 = load 0; %1:f64 = load 1 %0; yield %1 }
  }
}
)");
}

// A scalar read in a vector loop of no lanes must not happen: X's last row would be outside.
TEST(CpuAccesses, ScalarReadWithoutLanes) {
  expect_as_interpreted(R"(
nest empty
argument X: f32 [3] strides [1]
argument Z: f32 [3, 8] strides [8, 1] written
serial i from [0] extent [3] {
  vector l from [0] extent [8 - 8*i] width 8 {
    add Z[i, l] (X[i*i*1000000000000]) { %0:f32 = load 0; yield %0 }
    add Z[i*i*1000000000000, 0] (X[i]) { %0:f32 = load 0; yield %0 }
  }
}
)");
}

// The 6 x 4 buffer has cells along its first dimension, in two vectors of four.
const char* const kColumns = R"(
nest columns
argument X: f32 [8, 4] strides [4, 1]
argument Z: f32 [4] strides [1] written
registers r: f32 [8, 4] strides [4, 1]
alloc r
unrolled j from [0] extent [4] {
  unrolled h from [0] extent [2] {
    vector l from [4*h] extent [4] width 4 {
      assign r[l, j] (X[l, j]) { %0:f32 = load 0; yield %0 }
    }
  }
}
unrolled a from [0] extent [4] {
  vector m from [4] extent [a] width 4 {
    add r[m, a] () { %0:f32 = real 2.0; yield %0 }
  }
}
unrolled b from [0] extent [8] {
  unrolled c from [0] extent [4] {
    add Z[c] (r[b, 3 - c]) { %0:f32 = load 0; yield %0 }
  }
}
)";
TEST(CpuAccesses, CellsAlongTheFirstDimension) {
  Plan p = plan(parse(kColumns));
  EXPECT_EQ(p.places[2].home, Home::cells);
  EXPECT_EQ(p.places[2].cells.lane_dimension, 0);
  EXPECT_EQ(p.places[2].cells.width, 4);
  expect_as_interpreted(kColumns);
}

// Registers that a serial loop indexes are memory.
const char* const kIndexed = R"(
nest indexed
argument X: f32 [8] strides [1]
argument Z: f32 [8] strides [1] written
registers r: f32 [8] strides [1]
alloc r
serial i from [0] extent [8] {
  assign r[i] (X[7 - i]) { %0:f32 = load 0; yield %0 }
}
vector l from [1] extent [4] width 4 {
  assign Z[l] (r[l]) { %0:f32 = load 0; yield %0 }
}
)";
TEST(CpuAccesses, RegistersThatCannotBeCells) {
  EXPECT_EQ(plan(parse(kIndexed)).places[2].home, Home::scratch);
  expect_as_interpreted(kIndexed);
}

// A cell is stored under a lane's condition and a branch, and read after both and in a loop.
TEST(CpuAccesses, CellsAcrossControlFlow) {
  expect_as_interpreted(R"(
nest flow
argument X: f32 [6, 8] strides [8, 1]
argument Z: f32 [6, 8] strides [8, 1] written
registers r: f32 [8] strides [1]
registers s: f32 [1] strides [1]
serial i from [0] extent [6] {
  alloc r
  alloc s
  assign s[0] () { %0:f32 = real 1.0; yield %0 }
  vector l from [0] extent [8] width 8 {
    assign r[l] (X[i, l]) { %0:f32 = load 0; yield %0 }
    if [i - l] {
      multiply r[l] (s[0]) { %0:f32 = load 0; %1:f32 = real 3.0; %2:f32 = add %0 %1; yield %2 }
    } else {
      add r[l] (r[l]) { %0:f32 = load 0; yield %0 }
    }
  }
  if [2 - i] {
    add s[0] () { %0:f32 = real 5.0; yield %0 }
  }
  serial k from [0] extent [i] {
    vector m from [0] extent [8] width 8 {
      add r[m] (s[0], X[k, m]) { %0:f32 = load 0; %1:f32 = load 1; %2:f32 = mul %0 %1; yield %2 }
    }
    add s[0] () { %0:f32 = real 1.0; yield %0 }
  }
  vector n from [0] extent [8] width 8 {
    assign Z[i, n] (r[n], s[0]) { %0:f32 = load 0; %1:f32 = load 1; %2:f32 = add %0 %1; yield %2 }
  }
}
)");
}

// What was read is read again after a store to the same buffer, but not after others.
TEST(CpuAccesses, StoresAreSeenByLaterReads) {
  expect_as_interpreted(R"(
nest seen
argument X: i32 [8] strides [1]
argument Z: i32 [8] strides [1] written
scratch t: i32 [8] strides [1]
alloc t
unrolled i from [0] extent [4] {
  assign t[i] (X[i], Z[i]) { %0:i32 = load 0; %1:i32 = load 1; %2:i32 = add %0 %1; yield %2 }
  add Z[7 - i] (t[i], Z[i], X[0]) { %0:i32 = load 0; %1:i32 = load 1; %2:i32 = load 2; %3:i32 = mul %0 %1; %4:i32 = add %3 %2; yield %4 }
  vector l from [0] extent [8] width 8 {
    add Z[l] (Z[l], X[0]) { %0:i32 = load 0; %1:i32 = load 1; %2:i32 = add %0 %1; yield %2 }
  }
}
serial k from [0] extent [3] {
  add Z[0] (Z[0]) { %0:i32 = load 0; yield %0 }
  if [k - 1] {
    add Z[1] (Z[0]) { %0:i32 = load 0; yield %0 }
  }
  add Z[2] (Z[1]) { %0:i32 = load 0; yield %0 }
}
)");
}

// The same address read as vectors of two widths.
TEST(CpuAccesses, OneAddressTwoWidths) {
  expect_as_interpreted(R"(
nest widths
argument X: f32 [16] strides [1]
argument Z: f32 [16] strides [1] written
vector l from [0] extent [4] width 4 {
  assign Z[l] (X[l]) { %0:f32 = load 0; yield %0 }
}
vector m from [0] extent [16] width 16 {
  add Z[15 - m] (X[m]) { %0:f32 = load 0; yield %0 }
}
)");
}

// Scratch is each thread's own; workspace is shared between the loops of a launch, and so is
// anything that lives across them.
TEST(CpuAccesses, ScratchAndWorkspace) {
  const char* text = R"(
nest memory
argument X: f32 [64, 16] strides [16, 1]
argument Z: f32 [64] strides [1] written
workspace w: f32 [64, 16] strides [16, 1]
scratch s: f32 [16] strides [1]
scratch across: f32 [16] strides [1]
alloc w
alloc across
serial a from [0] extent [16] {
  assign across[a] (X[3, a]) { %0:f32 = load 0; yield %0 }
}
parallel i from [0] extent [64] grain 2 {
  alloc s
  vector l from [0] extent [16] width 16 {
    assign s[l] (X[i, 15 - l], across[l]) { %0:f32 = load 0; %1:f32 = load 1; %2:f32 = add %0 %1; yield %2 }
  }
  serial j from [0] extent [16] {
    assign w[i, j] (s[15 - j]) { %0:f32 = load 0; yield %0 }
  }
}
parallel k from [1] extent [63] grain 1 {
  serial m from [0] extent [16] {
    add Z[k] (w[64 - k, m]) { %0:f32 = load 0; yield %0 }
  }
}
)";
  Plan p = plan(parse(text));
  EXPECT_EQ(p.entries.size(), 3U);
  EXPECT_EQ(p.places[4].home, Home::workspace);
  expect_as_interpreted(text);
}

}  // namespace
}  // namespace tile::cpu
