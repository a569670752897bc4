// Prefetches of what the next register tile and later steps of a reduction read, and of what far
// results' rows go on with.
#include <gtest/gtest.h>

#include "backends/cpu/cpu_backend.h"
#include "tests/cpu/nests.h"

namespace tile::cpu {
namespace {

// Tiles of 3 x 16 of a product of an operand of so many rows; `row` is the one that row i of tile t
// reads.
std::string product(int64_t rows, const std::string& row = "3*t + i") {
  std::string shape = std::to_string(rows);
  return "nest product\nargument A: f32 [" + shape +
         ", 300] strides [300, 1]\nargument B: f32 [300, 16] strides [16, 1]\n"
         "argument C: f32 [12, 16] strides [16, 1] written\n"
         "registers acc: f32 [3, 16] strides [16, 1] written align 64\n"
         "serial t from [0] extent [4] {\n  alloc acc\n"
         "  unrolled i from [0] extent [3] { vector l from [0] extent [16] width 16 {\n"
         "    assign acc[i, l] () { %0:f32 = real 0; yield %0 } } }\n"
         "  serial k from [0] extent [300] {\n"
         "    unrolled i from [0] extent [3] { vector l from [0] extent [16] width 16 {\n"
         "      fma acc[i, l] (A[" +
         row +
         ", k], B[k, l]) { %0:f32 = load 0; %1:f32 = load 1; yield %0, %1 } } }\n  }\n"
         "  unrolled i from [0] extent [3] { vector l from [0] extent [16] width 16 {\n"
         "    assign C[3*t + i, l] (acc[i, l]) { %0:f32 = load 0; yield %0 } } }\n}\n";
}

int prefetches(const std::string& text) {
  std::shared_ptr<Backend> backend = shared_backend();
  std::string code = backend->emit(parse(text), backend->target(), "llvm");
  int count = 0;
  for (size_t at = 0; (at = code.find("call void @llvm.prefetch", at)) != std::string::npos; ++at) {
    ++count;
  }
  return count;
}

TEST(CpuPrefetch, RowsOfTheNextTileOfALargeOperand) {
  EXPECT_EQ(prefetches(product(1000)), 3);
  expect_as_interpreted(product(1000));
}

TEST(CpuPrefetch, NothingOfWhatIsNear) {
  EXPECT_EQ(prefetches(product(100)), 0) << "a small operand";
  EXPECT_EQ(prefetches(product(1000, "i")), 0) << "the same rows for every tile";
  EXPECT_EQ(prefetches(product(1000, "t + i")), 1) << "rows that this tile reads too";
}

// A tile of so many rows by 16 of the product of two operands of which each step of the reduction
// reads a row.
std::string outer_product(int64_t steps, int64_t rows) {
  std::string k = std::to_string(steps), m = std::to_string(rows);
  std::string all =
      "  unrolled i from [0] extent [" + m + "] { vector l from [0] extent [16] width 16 {\n    ";
  return "nest outer\nargument A: f32 [" + k + ", 16] strides [16, 1]\nargument B: f32 [" + k +
         ", 16] strides [16, 1]\nargument C: f32 [" + m +
         ", 16] strides [16, 1] written\nregisters acc: f32 [" + m +
         ", 16] strides [16, 1] written align 64\nserial t from [0] extent [1] {\n  alloc acc\n" +
         all + "assign acc[i, l] () { %0:f32 = real 0; yield %0 } } }\n" +
         "  serial k from [0] extent [" + k + "] {\n" + all +
         "fma acc[i, l] (A[k, i], B[k, l]) { %0:f32 = load 0; %1:f32 = load 1; yield %0, %1 } } }\n"
         "  }\n" +
         all + "assign C[i, l] (acc[i, l]) { %0:f32 = load 0; yield %0 } } }\n}\n";
}

TEST(CpuPrefetch, RowsOfLaterStepsOfLargeOperands) {
  EXPECT_EQ(prefetches(outer_product(20000, 8)), 2);
  expect_as_interpreted(outer_product(20000, 8));
  EXPECT_EQ(prefetches(outer_product(1000, 8)), 0) << "small operands";
  EXPECT_EQ(prefetches(outer_product(20000, 7)), 0) << "little arithmetic for each line";
}

// Prefix sums of rows of so many values, and so many of them.
std::string scans(int64_t rows, int64_t cells) {
  std::string r = std::to_string(rows), n = std::to_string(cells);
  std::string shape = ": f32 [" + r + ", " + n + "] strides [" + n + ", 1]";
  return "nest scans\nargument X" + shape + "\nargument Z" + shape +
         " written\nregisters acc: f32 [1] strides [1] written align 64\n"
         "parallel t from [0] extent [" +
         r +
         "] grain 1 {\n  alloc acc\n  assign acc[0] () { %0:f32 = real 0; yield %0 }\n"
         "  serial k from [0] extent [" +
         std::to_string(cells / 16) +
         "] {\n    vector l from [0] extent [16] width 16 ordered {\n"
         "      add acc[0] (X[t, 16*k + l]) { %0:f32 = load 0; yield %0 }\n"
         "      assign Z[t, 16*k + l] (acc[0]) { %0:f32 = load 0; yield %0 }\n    }\n  }\n}\n";
}

// Results past the caches: what a scan reads is asked for early, and lines that rows share with
// their neighbours, which cannot go past them, before they are written.
TEST(CpuPrefetch, ScansOfMoreThanTheCaches) {
  EXPECT_EQ(prefetches(scans(1024, 4096)), 1) << "of the reads";
  EXPECT_EQ(prefetches(scans(1024, 4100)), 2) << "rows that begin inside lines";
  EXPECT_EQ(prefetches(scans(256, 4096)), 1) << "what caches hold together, of the stores";
  EXPECT_EQ(prefetches(scans(32, 4096)), 0) << "what a core's caches hold";
}

// Vectors stored to a matrix of so many rows, the innermost loop going along or across them.
std::string fills(int64_t rows, const std::string& place) {
  return "nest fills\nargument Z: f32 [" + std::to_string(rows) +
         ", 1000] strides [1000, 1] written\nparallel t from [0] extent [" +
         std::to_string(rows / 16) +
         "] grain 1 {\n  serial a from [0] extent [16] {\n    serial b from [0] extent [16] {\n"
         "      vector l from [0] extent [16] width 16 {\n        assign Z[" +
         place + "] () { %0:f32 = real 1; yield %0 }\n      }\n    }\n  }\n}\n";
}

TEST(CpuPrefetch, StoresAlongRowsOfALargeResult) {
  EXPECT_EQ(prefetches(fills(1024, "16*t + a, 16*b + l")), 1);
  EXPECT_EQ(prefetches(fills(1024, "16*t + a, 60*b + l")), 0) << "lines that are not the next ones";
  EXPECT_EQ(prefetches(fills(1024, "16*t + b, 16*a + l")), 0) << "other rows come first";
  EXPECT_EQ(prefetches(fills(64, "16*t + a, 16*b + l")), 0) << "a result that stays near";
  expect_as_interpreted(fills(1024, "16*t + a, 16*b + l"));
}

// The rows of the last tile's successor do not exist.
TEST(CpuPrefetch, BeyondTheLastRow) { expect_as_interpreted(product(1000, "988 + 3*t + i")); }

}  // namespace

TEST(CpuPrefetch, WhatFoldsReadAtTheirCounters) {
  std::string step =
      "unrolled x from [0] extent [4] {\n"
      "  add acc3[x] (in_0[y + turn1, k], in_0[y + x, 8 * k]) {\n"
      "    %0:f32 = real 0; %1:i64 = int 0; %2:i64 = int 5;\n"
      "    %3 = fold ident 1 %1 %2 %0 [turn1] {\n"
      "      %0:f32 = argument 1; %1:f32 = load 0; %2:f32 = load 1; %3:f32 = add %0 %1;\n"
      "      %4:f32 = add %3 %2; yield %4 };\n"
      "    %4:f32 = component 0 %3; yield %4 }\n"
      "}\n";
  expect_as_interpreted(
      "nest folds\n"
      "argument in_0: f32 [640, 512] strides [512, 1]\n"
      "argument out_1: f32 [9, 4] strides [4, 1] written\n"
      "registers acc3: f32 [4] strides [1] written align 64\n"
      "serial y from [0] extent [9] {\n"
      "  alloc acc3\n"
      "  unrolled x from [0] extent [4] {\n"
      "    assign acc3[x] () { %0:f32 = real 0; yield %0 }\n"
      "  }\n"
      "  serial k from [0] extent [60] {\n" +
      step +
      "  }\n"
      "  unrolled x from [0] extent [4] {\n"
      "    assign out_1[y, x] (acc3[x]) { %0:f32 = load 0; yield %0 }\n"
      "  }\n"
      "}\n");
}

// What an ordered loop that runs back reads at a fold's counter has no place of its own.
TEST(CpuRunning, FoldsInLoopsThatRunBack) {
  expect_as_interpreted(
      "nest backwards\n"
      "argument in_0: f32 [8] strides [1]\n"
      "argument in_1: f32 [8, 5] strides [5, 1]\n"
      "argument out_2: f32 [8] strides [1] written\n"
      "registers acc3: f32 [1] strides [1] written align 64\n"
      "alloc acc3\n"
      "assign acc3[0] () { %0:f32 = real 0; yield %0 }\n"
      "unrolled x from [0] extent [2] {\n"
      "  vector y from [0] extent [4] width 4 ordered {\n"
      "    add acc3[0] (in_0[7 - 4*x - y]) { %0:f32 = load 0; yield %0 }\n"
      "    assign out_2[7 - 4*x - y] (in_1[7 - 4*x - y, turn1], acc3[0]) {\n"
      "      %0:f32 = real 1; %1:i64 = int 0; %2:i64 = int 5;\n"
      "      %3 = fold ident 1 %1 %2 %0 [turn1] {\n"
      "        %0:f32 = argument 1; %1:f32 = real 0.5; %2:f32 = mul %0 %1; %3:f32 = load 0;\n"
      "        %4:f32 = add %2 %3; yield %4 };\n"
      "      %4:f32 = component 0 %3; %5:f32 = load 1; %6:f32 = mul %4 %5; yield %6 }\n"
      "  }\n"
      "}\n");
}

}  // namespace tile::cpu
