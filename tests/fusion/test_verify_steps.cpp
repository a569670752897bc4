// The guard over grouped programs catches each way in which steps can be wrong, and fused steps
// stand only where what they read is made.
#include <gtest/gtest.h>

#include <functional>

#include "core/fusion/group.h"
#include "core/fusion/step_order.h"
#include "core/fusion/verify_steps.h"
#include "core/passes/normalize/domains.h"
#include "core/pipeline/pipeline.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

struct Grouped {
  BoundProgram program;
  std::vector<Step> steps;
};
Grouped grouped(const std::string& text, const std::vector<InputType>& types) {
  Grouped g;
  g.program = test::bind_text(text, types);
  run_pipeline(g.program, wide_target());
  g.steps = group(g.program, wide_target());
  return g;
}
// Three products, a kernel each.
Grouped products() {
  return grouped(
      "function (A[N, N], B[N, N]) -> (E, D) { C[i, j: N, N] = +(A[i, k] * B[k, j]);"
      " D[i, j: N, N] = +(C[i, k] * B[k, j]); E[i, j: N, N] = +(D[i, k] * C[k, j]); }",
      {{DType::f32, {64, 64}}, {DType::f32, {64, 64}}});
}
// One kernel with row loops.
Grouped softmax() {
  return grouped(
      "function (X[M, N]) -> (O) { Top[m, 0 : M, 1] = >(X[m, n]); E = exp(X - Top);"
      " Sum[m, 0 : M, 1] = +(E[m, n]), m - n < 5; O = E / Sum; }",
      {{DType::f32, {256, 1000}}});
}

std::string thrown(const std::function<void()>& run) {
  try {
    run();
  } catch (const InternalError& error) {
    return error.what();
  }
  return "";
}
std::string broken(const Grouped& g) {
  return thrown([&] { verify(g.steps, g.program); });
}
std::string broken_order(const Grouped& g) {
  return thrown([&] { verify_order(g.steps, g.program); });
}
Kernel& kernel(Grouped& g, size_t step) { return std::get<Kernel>(g.steps[step]); }
Piece& piece(Grouped& g, size_t step, size_t stage) {
  return kernel(g, step).stages[stage].contraction.pieces[0];
}
// The stage of the first kernel that has a condition.
size_t conditional(Grouped& g) {
  size_t s = 0;
  while (piece(g, 0, s).constraints.empty()) ++s;
  return s;
}

TEST(VerifySteps, GroupedProgramsAreRight) {
  EXPECT_EQ(products().steps.size(), 3U);
  EXPECT_EQ(softmax().steps.size(), 1U);
  EXPECT_EQ(broken(products()), "");
  EXPECT_EQ(broken(softmax()), "");
}

TEST(VerifySteps, AReaderBeforeItsMaker) {
  Grouped g = products();
  std::swap(g.steps[1], g.steps[2]);
  EXPECT_EQ(broken(g), "steps: E reads D, which no step before it makes");
  EXPECT_EQ(broken_order(g), broken(g));
  g = products();
  g.steps.erase(g.steps.begin());
  EXPECT_EQ(broken(g), "steps: D reads C, which no step before it makes");
  g = products();
  g.steps.pop_back();
  EXPECT_EQ(broken(g), "steps: the program's result reads E, which no step before it makes");
}

TEST(VerifySteps, TwoKernelsThatNeedEachOther) {
  Grouped g = products();  // the first and the last as one, on either side of the second
  Kernel both = kernel(g, 0);
  both.stages.push_back(kernel(g, 2).stages[0]);
  g.steps.pop_back();
  g.steps[0] = both;
  EXPECT_NE(broken_order(g), "");
  std::swap(g.steps[0], g.steps[1]);
  EXPECT_NE(broken_order(g), "");
}

TEST(VerifySteps, AStageBeforeWhatItReads) {
  Grouped g = softmax();
  std::swap(kernel(g, 0).stages.front(), kernel(g, 0).stages.back());
  EXPECT_NE(broken_order(g), "");
}

TEST(VerifySteps, NothingIsMadeTwice) {
  Grouped g = products();
  g.steps.push_back(g.steps[1]);
  EXPECT_EQ(broken(g), "steps: D makes D again");
}

TEST(VerifySteps, ListsSayWhatStagesReadAndWrite) {
  Grouped g = products();
  kernel(g, 1).reads.pop_back();
  EXPECT_NE(broken(g), "");
  g = products();
  kernel(g, 0).stages[0].residence = Residence::registers;
  kernel(g, 0).writes.clear();
  EXPECT_NE(broken(g), "");
}

TEST(VerifySteps, ConditionsAreKept) {
  Grouped g = softmax();
  piece(g, 0, conditional(g)).constraints.clear();
  EXPECT_NE(broken(g), "");
}

TEST(VerifySteps, PointsAreKept) {
  Grouped g = products();
  piece(g, 1, 0).box.back() -= 1;
  EXPECT_EQ(broken(g), "steps: D makes D from other points than the program");
  g = products();
  piece(g, 1, 0).box.back() += 1;
  EXPECT_NE(broken(g), "");
  // Cells that nothing makes get parallel points (a pool's operand split by its windows).
  g = grouped("function (A[N, N]) -> (C) { T[m: N] = +(A[n, m]), m < 1; C = exp(T); }",
              {{DType::f32, {8, 8}}});
  ASSERT_FALSE(g.steps.empty());
  EXPECT_EQ(broken(g), "");
  piece(g, 0, 0).box[0] = 8;
  EXPECT_EQ(broken(g), "steps: T makes T from other points than the program");
}

TEST(VerifySteps, AccessesStayInside) {
  Grouped g = products();
  piece(g, 1, 0).loads[0].index[0].affine.constant += Rational(1);
  EXPECT_EQ(broken(g), "domain: a load outside of C, dimension 0");
  g = products();
  piece(g, 1, 0).stores[0].index[1].affine.constant += Rational(-1);
  EXPECT_EQ(broken(g), "domain: a store outside of D, dimension 1");
  g = products();
  piece(g, 1, 0).loads[0].index.pop_back();
  EXPECT_EQ(broken(g), "domain: a load of C with another rank");
}

// What a condition keeps inside, directly or together with another.
TEST(VerifySteps, AccessesThatConditionsKeepInside) {
  Grouped g =
      grouped("function (A[N]) -> (B) { B[i: N] = +(A[i + k - 1]), k < 3; }", {{DType::f32, {16}}});
  Piece& taps = piece(g, 0, 0);
  EXPECT_EQ(broken(g), "");
  ASSERT_EQ(taps.constraints.size(), 1U);
  Constraint whole = taps.constraints[0];
  Constraint twice = whole;  // on a multiple of the form
  twice.form = twice.form * Rational(2);
  twice.lo *= 2;
  twice.hi *= 2;
  taps.constraints = {twice};
  EXPECT_EQ(broken(g), "");
  taps.constraints[0].hi += 2;
  EXPECT_EQ(broken(g), "domain: a load outside of A, dimension 0");
}

// A step for each statement.
std::vector<Step> one_by_one(const BoundProgram& program) {
  std::vector<Step> steps;
  for (const BoundStatement& s : program.statements) {
    Kernel k;
    k.stages.emplace_back();
    k.stages[0].contraction = std::get<Contraction>(s);
    k.tensors = program.tensors;
    steps.emplace_back(std::move(k));
  }
  return steps;
}

// A step at one of its members' places.
TEST(StepOrder, PlacesOfAFusedStep) {
  Grouped g = products();
  OpenSteps steps(one_by_one(g.program));
  EXPECT_EQ(common_place(steps, {0, 1}, g.program), 0U);
  EXPECT_EQ(common_place(steps, {1, 2}, g.program), 1U);
  EXPECT_EQ(common_place(steps, {0, 1, 2}, g.program), 0U);
  EXPECT_EQ(common_place(steps, {0, 2}, g.program), std::nullopt);  // the second is between
  EXPECT_FALSE(can_stand(steps, {0, 2}, 0, g.program));
  EXPECT_FALSE(can_stand(steps, {0, 2}, 2, g.program));
}
TEST(StepOrder, BehindWhatTheLastReads) {
  Grouped g = grouped(
      "function (A[N], B[N]) -> (F) { C[i: N] = +(A[i] * B[k]); D[i: N] = *(A[i] + B[k]);"
      " E[i: N] = >(D[i] * A[k]); F[i: N] = +(C[i] * E[k]); }",
      {{DType::f32, {64}}, {DType::f32, {64}}});
  OpenSteps steps(one_by_one(g.program));
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_FALSE(can_stand(steps, {0, 2}, 0, g.program));  // D comes later
  EXPECT_TRUE(can_stand(steps, {0, 2}, 2, g.program));
  EXPECT_EQ(common_place(steps, {0, 2}, g.program), 2U);
  EXPECT_EQ(common_place(steps, {0, 3}, g.program), 3U);
  EXPECT_EQ(common_place(steps, {0, 1, 3}, g.program), std::nullopt);
  steps.reset(2);  // part of another
  EXPECT_EQ(common_place(steps, {0, 3}, g.program), 0U);
}

}  // namespace
}  // namespace tile::testing
