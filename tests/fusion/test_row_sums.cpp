// Sums over rows gathered by the kernel that has the rows (gather-sums, fuse-row-sums): programs of
// norms and losses with sums of all kinds, on processors whose caches hold nothing, under analytic
// and random schedules, against the reference interpreter.
#include <gtest/gtest.h>

#include <cmath>

#include "core/fusion/group.h"
#include "core/kernel/stream.h"
#include "core/pipeline/pipeline.h"
#include "tests/random/random_program.h"
#include "tests/random/random_source.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"
#include "tests/support/step_runner.h"

namespace tile::test {
namespace {

// Integers, so that sums in any order are exact.
HostTensor numbers(DType type, const Shape& shape) {
  HostTensor t(type, shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    int64_t value = i * 7 % 5 - 2;
    t.set(i, is_float(type) ? real_scalar(static_cast<double>(value), type)
                            : integer_scalar(value, type));
  }
  return t;
}

Target without_caches(int threads) {
  Target t = testing::small_target();
  t.threads = threads;
  t.l2_bytes = 256;
  return t;
}

struct RowSums {
  std::string text;
  std::vector<HostTensor> inputs;
};

// How many kernels have sums of chunks beside results of rows that they store.
size_t expect_agreement(const RowSums& sums, const Target& target, bool always, uint64_t schedule) {
  SCOPED_TRACE(sums.text + " schedule " + std::to_string(schedule));
  std::vector<InputType> types;
  for (const HostTensor& t : sums.inputs) types.push_back({t.type, t.shape});
  BoundProgram program = bind_text(sums.text, types);
  std::vector<HostTensor> expected = interpret(program, sums.inputs).outputs;
  run_pipeline(program, target);
  StepRunner runner(program, sums.inputs);
  GroupOptions options;
  options.rows = options.siblings = always;
  size_t gathered = 0;
  for (const Step& step : group(program, target, options)) {
    const Kernel* k = std::get_if<Kernel>(&step);
    gathered += k != nullptr && has_stream(*k) ? 1 : 0;
    runner.run(step, schedule, target);
    if (::testing::Test::HasFatalFailure()) return gathered;
  }
  std::vector<HostTensor> got = runner.outputs();
  EXPECT_EQ(got.size(), expected.size());
  for (size_t o = 0; o < got.size(); ++o) {
    for (int64_t i = 0; i < got[o].count(); ++i) {
      Scalar x = expected[o].at(i), y = got[o].at(i);
      double a = is_float(x.type) ? x.f : static_cast<double>(x.i);
      double b = is_float(y.type) ? y.f : static_cast<double>(y.i);
      EXPECT_LE(std::abs(a - b), 1e-5 * std::max(1.0, std::abs(a)))
          << "result " << o << " at " << i;
      if (::testing::Test::HasFailure()) return gathered;
    }
  }
  return gathered;
}

// A norm of rows with the gradients of a scale and a shift, and its result.
const std::string kNorm =
    "function (X[M, N], D[M, N]) -> (O, G, B) { S[m, 0: M, 1] = +(X[m, n]); C = X * N - S;"
    " O = C * D; G[n: N] = +(C[m, n] * D[m, n]); B[n: N] = +(D[m, n]); }";
// A loss of all rows, the largest of each column, and what is made of a row's sum.
const std::string kLoss =
    "function (X[M, N], D[M, N]) -> (O, L, T) { S[m: M] = +(X[m, n]); O[m, n: M, N] = +(D[m, n] *"
    " S[m]); L[] = +(X[m, n] * S[m]); T[n: N] = >(X[m, n] + S[m] + m); }";

TEST(RowSums, AreGatheredWhateverTheRows) {
  size_t gathered = 0, unequal = 0;
  for (const std::string& text : {kNorm, kLoss}) {
    for (int64_t rows : {0, 1, 16, 32, 96, 127, 130}) {
      for (int64_t columns : {1, 5, 16, 33}) {
        for (DType type : {DType::f32, DType::i32}) {
          RowSums sums{text, {numbers(type, {rows, columns}), numbers(type, {rows, columns})}};
          size_t found = expect_agreement(sums, without_caches(1 + rows % 3), true, 0);
          found += expect_agreement(sums, without_caches(2), columns % 2 == 0, rows + columns);
          if (::testing::Test::HasFailure()) return;
          gathered += found;
          if (rows == 127) unequal += found;
        }
      }
    }
  }
  EXPECT_GT(gathered, 15U);
  EXPECT_EQ(unequal, 0U) << "chunks divide the rows";
}

// The program has a tensor of the name that sums of chunks would have.
TEST(RowSums, OfChunksHaveNamesOfTheirOwn) {
  const std::string text =
      "function (X[M, N], D[M, N], G_partial[N]) -> (O, G, B) { S[m, 0: M, 1] = +(X[m, n]);"
      " C = X * N - S; O = C * D + G_partial; G[n: N] = +(C[m, n] * D[m, n]);"
      " B[n: N] = +(D[m, n]); }";
  size_t gathered = 0;
  for (int64_t columns : {5, 16, 33}) {
    HostTensor rows = numbers(DType::f32, {128, columns});
    RowSums sums{text, {rows, rows, numbers(DType::f32, {columns})}};
    gathered += expect_agreement(sums, without_caches(2), true, 0);
  }
  EXPECT_GT(gathered, 0U);
}

// Rows of two dimensions, of which one stays whole.
TEST(RowSums, OfRowsInSeveralDimensions) {
  const std::string text =
      "function (X[A, M, N], D[A, M, N]) -> (O, G, H) { S[a, m, 0: A, M, 1] = +(X[a, m, n]);"
      " C = X * N - S; O = C + D; G[n: N] = +(C[a, m, n] * D[a, m, n]);"
      " H[a, n: A, N] = +(C[a, m, n] * m); }";
  size_t gathered = 0;
  for (const Shape& shape : {Shape{2, 48, 7}, Shape{5, 64, 16}, Shape{1, 96, 3}}) {
    RowSums sums{text, {numbers(DType::f32, shape), numbers(DType::f32, shape)}};
    for (uint64_t schedule = 0; schedule < 6; ++schedule) {
      gathered += expect_agreement(sums, without_caches(2), schedule % 2 == 0, schedule);
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_GT(gathered, 0U);
}

// What else reads a row's values keeps them stored, in the program's shape.
TEST(RowSums, ValuesThatOthersNeedStayWhole) {
  const std::string text =
      "function (X[M, N], K[N, P]) -> (C, G, Y) { S[m, 0: M, 1] = +(X[m, n]); C = X * N - S;"
      " G[n: N] = +(C[m, n] * X[m, n]); Y[m, p: M, P] = +(C[m, n] * K[n, p]); }";
  for (uint64_t schedule = 0; schedule < 4; ++schedule) {
    RowSums sums{text, {numbers(DType::f32, {64, 12}), numbers(DType::f32, {12, 40})}};
    expect_agreement(sums, without_caches(2), schedule % 2 == 0, schedule);
  }
}

// A sum that is alone, or whose result is all that others read, has no rows that pass by.
TEST(RowSums, ThatAreAloneStayWhole) {
  for (const char* rest : {"O[n: N] = +(X[m, n]);", "S[n: N] = +(X[m, n]); O = S / M;"}) {
    BoundProgram program = bind_text(std::string("function (X[M, N]) -> (O) { ") + rest + " }",
                                     {{DType::f32, {256, 4096}}});
    run_pipeline(program, without_caches(2));
    for (const BoundTensor& tensor : program.tensors) {
      EXPECT_EQ(tensor.name.find("partial"), std::string::npos) << tensor.name;
    }
  }
}

// Rows that read the sum of chunks, which comes behind rows where one kernel has both.
TEST(RowSums, OfWhichTheRowsAreMadeStayApart) {
  const std::string text =
      "function (X[M, N]) -> (S, T) { S[a, n: M / 2, N] = +(X[2 * a + s, n]), s < 2;"
      " T[m, a: M, M / 2] = +(X[m, n] + S[a, m]), n < N; }";
  for (uint64_t schedule = 0; schedule < 4; ++schedule) {
    for (int64_t size : {2, 8, 32}) {
      RowSums sums{text, {numbers(DType::i32, {size, size})}};
      expect_agreement(sums, without_caches(2), schedule % 2 == 0, schedule);
    }
  }
}

}  // namespace
}  // namespace tile::test
