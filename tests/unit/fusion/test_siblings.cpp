// Reductions of one tensor over the same axes in one kernel: which are joined, and every random
// schedule of the result against the reference interpreter.
#include <gtest/gtest.h>

#include "core/fusion/group.h"
#include "core/pipeline/pipeline.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"
#include "tests/support/step_runner.h"

namespace tile::testing {
namespace {

using test::kInf;
using test::kNan;

HostTensor noise(Shape shape, uint64_t seed, DType type = DType::f32) {
  std::mt19937_64 random(seed);
  HostTensor tensor(type, std::move(shape));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    tensor.set(i, real_scalar(static_cast<double>(random() % 17) / 4 - 2, type));
  }
  return tensor;
}

std::vector<Step> steps_of(const std::string& text, const std::vector<HostTensor>& inputs) {
  BoundProgram program = test::bind_text(text, test::types_of(inputs));
  run_pipeline(program, wide_target());
  return group(program, wide_target());
}

// The most results that one stage makes.
size_t most_results(const std::vector<Step>& steps) {
  size_t most = 0;
  for (const Step& step : steps) {
    for (const KernelStage& s : std::get<Kernel>(step).stages) {
      most = std::max(most, s.contraction.outputs.size());
    }
  }
  return most;
}

// Runs the program under the analytic and `count` random schedules.
void expect_joined(const std::string& text, const std::vector<HostTensor>& inputs, size_t results,
                   int count = 20, double tolerance = 1e-5) {
  BoundProgram program = test::bind_text(text, test::types_of(inputs));
  std::vector<HostTensor> expected = interpret(program, inputs).outputs;
  run_pipeline(program, wide_target());
  std::vector<Step> steps = group(program, wide_target());
  ASSERT_EQ(most_results(steps), results);
  test::expect_steps_give(program, steps, inputs, expected, count, tolerance);
}

constexpr const char* kMoments =
    "function (X[M, N]) -> (A, B) { S[n: N] = +(X[m, n]); Q[n: N] = +(X[m, n] * X[m, n]);"
    " A = S / M; B = Q / M; }";
// Gradients of a scale and a shift, with another order of indices.
constexpr const char* kScaleAndShift =
    "function (X[M, K, N], D[M, K, N]) -> (G, B) {"
    " B[c: N] = +(D[i, j, c]); G[n: N] = +(D[m, k, n] * X[m, k, n]); }";

TEST(Siblings, Columns) {
  for (Shape shape : {Shape{37, 19}, Shape{300, 5}, Shape{9, 70}, Shape{64, 64}}) {
    expect_joined(kMoments, {noise(shape, 1)}, 2);
  }
  expect_joined(kScaleAndShift, {noise({7, 5, 33}, 1), noise({7, 5, 33}, 2)}, 2);
}
// Statements after the second that read both.
TEST(Siblings, Epilogues) {
  expect_joined(
      "function (X[M, N]) -> (V) { S[n: N] = +(X[m, n]); Q[n: N] = +(X[m, n] * X[m, n]);"
      " A = S / M; V = Q / M - A * A; }",
      {noise({33, 21}, 2)}, 2);
  expect_joined(
      "function (X[A, B, C], W[C]) -> (V, S) { S[a, c: A, C] = +(X[a, b, c]);"
      " Q[a, c: A, C] = +(X[a, b, c] * X[a, b, c]); V = W * Q - S; }",
      {noise({4, 13, 20}, 2), noise({20}, 3)}, 2);
}
// Results of other cells than the tile's.
TEST(Siblings, TransposedReadersStayApart) {
  std::vector<HostTensor> x = {noise({9, 18, 18}, 2)};
  expect_joined(
      "function (X[M, N, K]) -> (V) { S[n, k: N, K] = +(X[m, n, k]);"
      " Q[n, k: N, K] = +(X[m, n, k] * X[m, n, k]); V[n, k: N, K] = =(Q[n, k] * S[k, n]); }",
      x, 1);
  expect_joined(
      "function (X[M, N, K]) -> (V) { S[k, n: K, N] = +(X[m, n, k]);"
      " Q[n, k: N, K] = +(X[m, n, k] * X[m, n, k]); V = Q * S; }",
      x, 1);
}
TEST(Siblings, RowsAndBlocksInTheMiddle) {
  expect_joined(
      "function (X[M, N]) -> (S, Q) { S[m: M] = +(X[m, n]); Q[m: M] = +(X[m, n] * X[m, n]); }",
      {noise({13, 45}, 3)}, 2);
  expect_joined(
      "function (X[A, B, C], Y[A, B, C], W[A, B, C]) -> (S, Q, R) {"
      " S[a, c: A, C] = +(X[a, b, c] * Y[a, b, c]); Q[x, z: A, C] = +(Y[x, y, z]);"
      " R[a, c: A, C] = +(W[a, b, c] * Y[a, b, c]); }",
      {noise({3, 11, 18}, 1), noise({3, 11, 18}, 2), noise({3, 11, 18}, 3)}, 3);
}
TEST(Siblings, SizesOfOne) {
  for (Shape shape : {Shape{1, 19}, Shape{23, 1}}) {
    std::vector<HostTensor> inputs = {noise(shape, 5)};
    expect_joined(kMoments, inputs, most_results(steps_of(kMoments, inputs)), 12);
  }
  expect_joined(kScaleAndShift, {noise({6, 1, 21}, 1), noise({6, 1, 21}, 2)}, 2);
}
TEST(Siblings, OtherAggregationsAndTypes) {
  expect_joined(
      "function (X[M, N]) -> (A, B) { A[n: N] = >(X[m, n]); B[n: N] = >(0.0 - X[m, n]); }",
      {noise({29, 21}, 6)}, 2);
  expect_joined(kMoments, {noise({31, 20}, 7, DType::bf16)}, 2, 16, 0.05);
}
TEST(Siblings, InfinitiesAndNaN) {
  HostTensor x = noise({25, 18}, 8);
  x.set(3 * 18 + 2, real_scalar(kNan, DType::f32));
  x.set(9 * 18 + 5, real_scalar(-kInf, DType::f32));
  x.set(9 * 18 + 6, real_scalar(kInf, DType::f32));
  x.set(11 * 18 + 6, real_scalar(-kInf, DType::f32));
  expect_joined(kMoments, {x}, 2);
  expect_joined(
      "function (X[M, N]) -> (A, B) { A[n: N] = <(X[m, n]); B[n: N] = <(0.5 * X[m, n]); }", {x}, 2);
}

// One that needs the other's result, other points, another aggregation: kernels, or stages, of
// their own.
TEST(Siblings, OthersStayApart) {
  std::vector<HostTensor> x = {noise({40, 24}, 9)};
  for (const char* text :
       {"function (X[M, N]) -> (V) { S[n: N] = +(X[m, n]); D = X - S; V[n: N] = +(D[m, n] * "
        "D[m, n]); }",
        "function (X[M, N]) -> (A, B) { A[n: N] = +(X[m, n]); B[m: M] = +(X[m, n]); }",
        "function (X[M, N]) -> (A, B) { A[n: N] = +(X[m, n]); B[n: N] = >(X[m, n]); }",
        "function (X[M, N]) -> (A, B) { A[n: N] = +(X[m, n]); B[n: N] = +(X[2 * m, n]); }"}) {
    EXPECT_EQ(most_results(steps_of(text, x)), 1U) << text;
  }
  EXPECT_EQ(most_results(steps_of(
                "function (X[M, K], A[K, N], B[K, N]) -> (P, Q) {"
                " P[m, n: M, N] = +(X[m, k] * A[k, n]); Q[m, n: M, N] = +(X[m, k] * B[k, n]); }",
                {noise({24, 24}, 1), noise({24, 24}, 2), noise({24, 24}, 3)})),
            1U);
}

}  // namespace
}  // namespace tile::testing
