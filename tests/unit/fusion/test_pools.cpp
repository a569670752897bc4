// Reductions over disjoint windows in the kernel that makes their operand: every random schedule
// against the reference interpreter, the kernel's shape, and what must stay apart.
#include <gtest/gtest.h>

#include <random>

#include "core/fusion/group.h"
#include "core/kernel/rows.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"
#include "tests/support/step_runner.h"

namespace tile::testing {
namespace {

using test::kInf;
using test::kNan;

// A 3x3 convolution, what follows it, and a reduction over windows of R.
std::string convolution(const std::string& epilogue, const std::string& pool) {
  return "function (I[N, H, W, C], K[3, 3, C, D], B[D]) -> (P) {"
         " O[n, y, x, d: N, H, W, D] = +(I[n, y + j - 1, x + i - 1, c] * K[j, i, c, d]); " +
         epilogue + pool + " }";
}
constexpr const char* kRelu = "R = relu(O + B);";
constexpr const char* kMax =
    "P[n, y, x, d: N, H / 2, W / 2, D] = >(R[n, 2 * y + j, 2 * x + i, d]), j < 2, i < 2;";

HostTensor noise(Shape shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  HostTensor tensor(DType::f32, std::move(shape));
  for (int64_t i = 0; i < tensor.count(); ++i) {
    tensor.set(i, real_scalar(static_cast<double>(random() % 33) / 8 - 2, DType::f32));
  }
  return tensor;
}
std::vector<HostTensor> picture(int64_t n, int64_t h, int64_t w, int64_t c, int64_t d) {
  return {noise({n, h, w, c}, 1), noise({3, 3, c, d}, 2), noise({d}, 3)};
}

std::vector<Step> pooled_steps(BoundProgram& program) {
  run_pipeline(program, wide_target());
  return group(program, wide_target(), {.pools = true});
}
// Runs the program under the analytic and `count` random schedules, as `kernels` kernels.
void expect_reference(const std::string& text, const std::vector<HostTensor>& inputs, int count,
                      size_t kernels = 1) {
  BoundProgram program = test::bind_text(text, test::types_of(inputs));
  std::vector<HostTensor> expected = interpret(program, inputs).outputs;
  std::vector<Step> steps = pooled_steps(program);
  ASSERT_EQ(steps.size(), kernels);
  for (const Step& s : steps) verify(std::get<Kernel>(s));
  test::expect_steps_give(program, steps, inputs, expected, count, 1e-5);
}

TEST(Pools, MaximumBehindAConvolution) {
  expect_reference(convolution(kRelu, kMax), picture(2, 6, 8, 3, 5), 24);
  expect_reference(convolution("R = O;", kMax), picture(1, 4, 4, 2, 17), 24);
}
TEST(Pools, OddSizesLeaveTheLastCellsOut) {
  expect_reference(convolution(kRelu, kMax), picture(1, 7, 5, 3, 19), 24);
  expect_reference(convolution(kRelu, kMax), picture(3, 2, 3, 1, 1), 24);
  expect_reference(convolution(kRelu, kMax), picture(1, 3, 11, 1, 2), 24);
}
TEST(Pools, SumsAndSeveralStagesBehindThem) {
  std::string average =
      "S[n, y, x, d: N, H / 2, W / 3, D] = +(R[n, 2 * y + j, 3 * x + i, d]), j < 2, i < 3;"
      " P = S / 6 + B;";
  expect_reference(convolution(kRelu, average), picture(2, 5, 7, 3, 9), 24);
  std::string squares =
      "S[n, x, d: N, W / 2, D] = +(square(R[n, y, 2 * x + i, d])), i < 2; P = sqrt(S);";
  expect_reference(convolution("T = O * 0.5; R = T + B;", squares), picture(1, 4, 6, 2, 3), 24);
}
TEST(Pools, WindowsWithGapsAndOffsets) {
  std::string gaps =
      "P[n, y, x, d: N, 2, 2, D] = >(R[n, 3 * y + j + 1, 4 * x + i, d]), j < 2, i < 3;";
  expect_reference(convolution(kRelu, gaps), picture(1, 7, 8, 2, 5), 24);
  std::string whole = "P[n, d: N, D] = <(R[n, y, x, d]);";
  expect_reference(convolution(kRelu, whole), picture(2, 3, 4, 2, 5), 24);
}
TEST(Pools, TurnedResultsAndProducts) {
  expect_reference(
      "function (A[M, L], B[L, N]) -> (P) { O[i, j: M, N] = +(A[i, k] * B[k, j]);"
      " P[j, i: N, M / 3] = >(O[3 * i + a, j]), a < 3; }",
      {noise({7, 5}, 4), noise({5, 18}, 5)}, 24);
  expect_reference(
      "function (A[M, L], B[L, N]) -> (P) { O[i, j: M, N] = +(A[i, k] * B[k, j]);"
      " T[j, i: N, M] = =(exp(O[i, j])); P[i: N / 2] = +(T[2 * i + a, m]), a < 2; }",
      {noise({6, 5}, 4), noise({5, 9}, 5)}, 24);
}
TEST(Pools, SpecialValues) {
  std::vector<HostTensor> inputs = picture(1, 9, 8, 2, 5);
  inputs[0].set(30, real_scalar(kNan, DType::f32));
  inputs[0].set(77, real_scalar(kInf, DType::f32));
  inputs[0].set(110, real_scalar(-kInf, DType::f32));
  expect_reference(convolution("R = O + B;", kMax), inputs, 40);
}
TEST(Pools, RandomWindows) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20; ++i) {
    auto pick = [&](int64_t low, int64_t high) {
      return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    };
    std::string text;
    int64_t size[2], step[2], width[2];
    for (int a = 0; a < 2; ++a) {
      step[a] = pick(1, 4);
      width[a] = pick(1, step[a]);
      size[a] = pick(step[a], 13);
    }
    auto s = [](int64_t v) { return std::to_string(v); };
    std::string pool = "P[n, y, x, d: N, " + s((size[0] - width[0]) / step[0] + 1) + ", " +
                       s((size[1] - width[1]) / step[1] + 1) + ", D] = " + "+><"[i % 3] + "(R[n, " +
                       s(step[0]) + " * y + j, " + s(step[1]) + " * x + i, d]), j < " +
                       s(width[0]) + ", i < " + s(width[1]) + ";";
    if (width[0] == 1 && width[1] == 1) continue;  // nothing to reduce
    SCOPED_TRACE(pool);
    expect_reference(convolution(i % 2 == 0 ? kRelu : "R = O;", pool),
                     picture(pick(1, 2), size[0], size[1], pick(1, 3), pick(1, 20)), 6);
  }
}

// Neither memory nor a buffer on chip holds the convolution's whole result.
TEST(Pools, TheWholeTensorIsNeverStored) {
  std::vector<HostTensor> inputs = picture(1, 64, 64, 3, 64);
  BoundProgram program = test::bind_text(convolution(kRelu, kMax), test::types_of(inputs));
  run_pipeline(program, wide_target());
  std::vector<Step> steps = group(program, wide_target());  // the model's own choice
  ASSERT_EQ(steps.size(), 1U);
  const auto& kernel = std::get<Kernel>(steps[0]);
  EXPECT_EQ(kernel.writes.size(), 1U);
  nest::Nest nest = lower(kernel, analytic_schedule(kernel, wide_target()), wide_target());
  for (const nest::Buffer& b : nest.buffers) {
    if (b.scope == nest::Scope::argument) continue;
    EXPECT_LT(element_count(b.shape), 64 * 64 * 64 / 4) << b.name;
  }
}

TEST(Pools, WhatOthersNeedOrWindowsShareStays) {
  std::vector<HostTensor> inputs = picture(1, 7, 8, 2, 5);
  std::string overlapping =
      "P[n, y, x, d: N, H / 2, W / 2, D] = >(R[n, 2 * y + j, 2 * x + i, d]), j < 3, i < 2;";
  expect_reference(convolution(kRelu, overlapping), inputs, 2, 2);
  std::string text = convolution(kRelu, kMax);
  text.replace(text.find("(P)"), 3, "(P, R)");
  expect_reference(text, inputs, 2, 2);
}
// Few rows of windows, each behind all of the weights: the model keeps both kernels, whose blocks
// fit the caches and the threads better.
TEST(Pools, TheModelDecides) {
  std::vector<InputType> types = {
      {DType::f32, {1, 14, 14, 512}}, {DType::f32, {3, 3, 512, 512}}, {DType::f32, {512}}};
  BoundProgram program = test::bind_text(convolution(kRelu, kMax), types);
  run_pipeline(program, wide_target());
  EXPECT_EQ(group(program, wide_target()).size(), 2U);
  EXPECT_EQ(group(program, wide_target(), {.pools = true}).size(), 1U);
}

}  // namespace
}  // namespace tile::testing
