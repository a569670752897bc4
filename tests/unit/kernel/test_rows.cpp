// Kernels with row loops: rules, text form, and every random schedule against brute force.
#include <gtest/gtest.h>

#include "core/fusion/group.h"
#include "core/kernel/geometry.h"
#include "core/kernel/rows.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/legality/legality.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

TEST(Rows, KernelsPrintAndParse) {
  Kernel kernel = normalised_rows(5, 9, false, false);
  verify(kernel);
  auto source = std::make_shared<const Source>(Source{"k", print(kernel)});
  Kernel again = parse_kernel(source);
  EXPECT_EQ(print(again), source->text);
  EXPECT_EQ(again.stages[1].rows, (IdVector<RowId, IteratorId>{IteratorId(1)}));
  EXPECT_EQ(again.stages[1].residence, Residence::row);
  verify(again);
}

TEST(Rows, ResultsOfOtherRowsAreRefused) {
  Kernel kernel = normalised_rows(6, 6, false, false);
  EXPECT_EQ(broken_rows(kernel), "");
  Kernel turned = kernel;
  auto& index = turned.stages[4].contraction.pieces[0].loads[0].index;
  std::swap(index[0], index[1]);
  EXPECT_EQ(broken_rows(turned), "a read of another row");
  Kernel reduced = kernel;
  reduced.stages[0].rows = {IteratorId(1)};
  EXPECT_EQ(broken_rows(reduced), "a row that is no parallel dimension");
  Kernel partly = kernel;
  partly.stages[1].rows.clear();
  EXPECT_EQ(broken_rows(partly), "another number of rows");
}

TEST(Rows, SharedLoopsAgree) {
  Kernel kernel = normalised_rows(6, 7, false, false);
  Schedule schedule = plain_schedule(kernel);
  EXPECT_EQ(illegal(schedule, kernel, small_target()), "");
  EXPECT_EQ(schedule.shared, 1U);
  Schedule other = schedule;
  other.stages[1][0].outer[0].binding = Binding::parallel;
  EXPECT_EQ(illegal(other, kernel, small_target()), "shared loops that differ");
  Schedule none = schedule;
  none.shared = 0;
  EXPECT_EQ(illegal(none, kernel, small_target()), "a row without a loop");
}

// One row more than whole blocks is no block more.
TEST(Rows, AShortBlockCostsItsRowsAlone) {
  Target target = wide_target();
  target.threads = 1;
  auto in_blocks = [&](int64_t rows) {
    Kernel kernel = normalised_rows(rows, 64, false, false);
    Schedule schedule = plain_schedule(kernel);
    for (std::vector<PieceSchedule>& stage : schedule.stages) {
      if (stage.empty()) continue;
      Loop inside = stage[0].outer[0];
      stage[0].outer[0].step = 16;
      stage[0].outer.insert(stage[0].outer.begin() + 1, inside);
    }
    EXPECT_EQ(illegal(schedule, kernel, target), "");
    return estimate(schedule, kernel, target);
  };
  EXPECT_LT(in_blocks(33), 1.1 * in_blocks(32));
  EXPECT_GT(in_blocks(33), in_blocks(32));
}

TEST(Rows, LeadingRow) {
  expect_all_schedules_agree(normalised_rows(7, 37, false, false), 120);
  expect_all_schedules_agree(normalised_rows(21, 5, false, false), 60);
}
TEST(Rows, TrailingRow) { expect_all_schedules_agree(normalised_rows(37, 9, true, false), 120); }
TEST(Rows, CausalRow) {
  expect_all_schedules_agree(normalised_rows(13, 13, false, true), 80);
  expect_all_schedules_agree(normalised_rows(19, 11, true, true), 80);
}

// Results that live for a row take no more than the block of rows.
TEST(Rows, RowsStayOnChip) {
  Kernel kernel = normalised_rows(64, 48, false, false);
  nest::Nest nest = lower(kernel, plain_schedule(kernel), small_target());
  EXPECT_EQ(nest.argument_count(), 2U);
  for (const nest::Buffer& b : nest.buffers) {
    if (b.scope == nest::Scope::argument) continue;
    EXPECT_NE(b.scope, nest::Scope::workspace);
    EXPECT_LE(element_count(b.shape), 48) << b.name;
  }
}

std::vector<Kernel> kernels_of(const std::string& text, const std::vector<InputType>& types) {
  BoundProgram program = test::bind_text(text, types);
  run_pipeline(program, wide_target());
  std::vector<Kernel> kernels;
  for (Step& step : group(program, wide_target())) kernels.push_back(std::get<Kernel>(step));
  for (const Kernel& kernel : kernels) verify(kernel);
  return kernels;
}
// Global tensors of one kernel: nothing else passes through memory.
size_t globals(const Kernel& kernel) { return kernel.reads.size() + kernel.writes.size(); }

// Worked example (c) of the design.
TEST(Rows, SoftmaxIsOneKernel) {
  std::vector<Kernel> kernels = kernels_of(
      "function (X[M, N]) -> (O) { Top[m, 0 : M, 1] = >(X[m, n]); E = exp(X - Top);"
      " Sum[m, 0 : M, 1] = +(E[m, n]); O = E / Sum; }",
      {{DType::f32, {256, 1000}}});
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(globals(kernels[0]), 2U);
  EXPECT_EQ(row_loops(kernels[0]), 1U);
}
// Rows of several axes become one loop; the reduced axis may be any.
TEST(Rows, SoftmaxOfAnyAxis) {
  for (int axis = 0; axis < 3; ++axis) {
    std::string top[3] = {"0, b, c : 1, B, C", "a, 0, c : A, 1, C", "a, b, 0 : A, B, 1"};
    std::string text = "function (X[A, B, C]) -> (O) { Top[" + top[axis] +
                       "] = >(X[a, b, c]); E = exp(X - Top); Sum[" + top[axis] +
                       "] = +(E[a, b, c]); O = E / Sum; }";
    std::vector<Kernel> kernels = kernels_of(text, {{DType::f32, {60, 70, 80}}});
    ASSERT_EQ(kernels.size(), 1U) << axis;
    EXPECT_EQ(globals(kernels[0]), 2U);
    EXPECT_EQ(row_loops(kernels[0]), axis == 1 ? 2U : 1U);
  }
}
TEST(Rows, LayerNormIsOneKernel) {
  std::vector<Kernel> kernels = kernels_of(
      "function (X[M, N], G[N], B[N]) -> (O) { Sum[m, 0 : M, 1] = +(X[m, n]); D = X - Sum / N;"
      " S = D * D; Var[m, 0 : M, 1] = +(S[m, n]); O = D * rsqrt(Var / N + 0.00001) * G + B; }",
      {{DType::f32, {256, 768}}, {DType::f32, {768}}, {DType::f32, {768}}});
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(globals(kernels[0]), 4U);
}
// Sums over the same data read it once.
TEST(Rows, SiblingReductionsShareTheRow) {
  std::vector<Kernel> kernels = kernels_of(
      "function (X[M, N], Y[M, N]) -> (S, T) { S[m : M] = +(X[m, n]);"
      " T[m : M] = +(X[m, n] * Y[m, n]); }",
      {{DType::f32, {2000, 1000}}, {DType::f32, {2000, 1000}}});
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].reads.size(), 2U);
}

// What a loop inside an element reads is not known: such a stage keeps loops of its own.
TEST(Rows, WindowsOfRunTimeSizeStayApart) {
  const char* text = R"(tensor A: f32 [64, 64] input
tensor R: i64 [] input
tensor T: f32 [64, 64] output
tensor O: f32 [64] output
inputs [A, R]
outputs [O, T]
contraction [T] = f32 {
  piece [i, j] {
    store T[i, j]
    load R[]
    load A[i, %0 !clamp]
    body { %0:i64 = index 1; %1:i64 = int 0; %2:i64 = load 0; %3:f32 = real 0; %4 = fold add 1 %1 %2 %3 %0 { %0:i64 = argument 0; %1:i64 = argument 2; %2:i64 = add %0 %1; %3:f32 = load 1 %2; yield %3 }; %5:f32 = component 0 %4; yield %5 }
  }
}
contraction [O] + f32 {
  piece [i, j] {
    store O[i]
    load T[i, j]
    body { %0:f32 = load 0; yield %0 }
  }
}
)";
  BoundProgram program = parse_bound(std::make_shared<const Source>(Source{"b", text}));
  run_pipeline(program, wide_target());
  EXPECT_EQ(group(program, wide_target()).size(), 2U);
}

}  // namespace
}  // namespace tile::testing
