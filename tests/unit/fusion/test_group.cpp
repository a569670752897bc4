// Grouping into kernels, merged dimensions, strided arguments, and the kernels' text form.
#include <gtest/gtest.h>

#include "core/fusion/group.h"
#include "core/kernel/collapse.h"
#include "core/kernel/geometry.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

std::vector<Kernel> kernels_of(const std::string& text, const std::vector<InputType>& types) {
  BoundProgram program = test::bind_text(text, types);
  run_pipeline(program, small_target());
  std::vector<Kernel> kernels;
  for (Step& step : group(program, small_target())) kernels.push_back(std::get<Kernel>(step));
  return kernels;
}
InputType f32(Shape shape) { return {DType::f32, std::move(shape)}; }

int64_t points(const Piece& piece) {
  int64_t n = 1;
  for (int64_t extent : piece.box) n *= extent;
  return n;
}

// Worked example (a) of the design: the epilogue is computed in the product's register tile.
TEST(Group, EpilogueAttachesToTheRegisterTile) {
  std::vector<Kernel> kernels = kernels_of(
      "function (A[M, K], B[K, N], D[N]) -> (E) {"
      " C[i, j : M, N] = +(A[i, k] * B[k, j]); F = C + D; E = gelu(F); }",
      {f32({32, 24}), f32({24, 40}), f32({40})});
  ASSERT_EQ(kernels.size(), 1U);
  ASSERT_GE(kernels[0].stages.size(), 2U);
  EXPECT_EQ(kernels[0].stages[0].residence, Residence::registers);
  for (size_t s = 1; s < kernels[0].stages.size(); ++s)
    EXPECT_EQ(kernels[0].stages[s].attach, StageId(0));
  EXPECT_EQ(kernels[0].writes.size(), 1U);
  EXPECT_EQ(kernels[0].reads.size(), 3U);
  nest::Nest nest = lower(kernels[0], analytic_schedule(kernels[0], wide_target()), wide_target());
  EXPECT_EQ(nest.argument_count(), 4U);
  for (const nest::Buffer& b : nest.buffers) {
    bool on_chip = b.scope == nest::Scope::argument || b.scope == nest::Scope::registers ||
                   b.scope == nest::Scope::scratch;
    EXPECT_TRUE(on_chip) << b.name;
  }
}

TEST(Group, AResultNeededElsewhereIsStored) {
  std::vector<Kernel> kernels = kernels_of(
      "function (A[M, K], B[K, N]) -> (C, E) {"
      " C[i, j : M, N] = +(A[i, k] * B[k, j]); E = exp(C); }",
      {f32({8, 4}), f32({4, 8})});
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].stages[0].residence, Residence::global);
  EXPECT_EQ(kernels[0].writes.size(), 2U);
}

TEST(Group, AReaderOfOtherCellsIsAKernelOfItsOwn) {
  std::vector<Kernel> kernels = kernels_of(
      "function (A[M, K], B[K, N]) -> (E) { C[i, j : M, N] = +(A[i, k] * B[k, j]);"
      " E[i, j : M - 1, N - 1] = +(C[i + k, j + k]), k < 2; }",
      {f32({8, 4}), f32({4, 8})});
  EXPECT_EQ(kernels.size(), 2U);
}

// Worked example (b): nine pieces whose tap ranges are exact, so that the work is the valid points.
TEST(Group, StridedDilatedDataGradientDoesOnlyUsefulWork) {
  std::string text =
      "function (D[X, Y], K[I, J]) -> (G) {"
      " G[3*x + 2*i, 3*y + 2*j : 41, 41] = +(D[x, y] * K[i, j]); }";
  std::vector<InputType> types = {f32({11, 11}), f32({6, 6})};
  BoundProgram program = test::bind_text(text, types);
  std::vector<HostTensor> inputs = {HostTensor(DType::f32, {11, 11}),
                                    HostTensor(DType::f32, {6, 6})};
  int64_t useful = interpret(program, inputs).points;
  std::vector<Kernel> kernels = kernels_of(text, types);
  ASSERT_EQ(kernels.size(), 1U);
  const Kernel& kernel = kernels[0];
  EXPECT_EQ(kernel.stages[0].contraction.pieces.size(), 9U);
  Values values = small_integers(kernel, 1);
  nest::NestCounts counts;
  run_nest(lower(kernel, plain_schedule(kernel), small_target()), kernel, values, &counts);
  EXPECT_EQ(counts.multiply_adds, useful);
}

TEST(Group, PaddedConvolutionDoesOnlyValidPoints) {
  Kernel kernel = convolution(1, 7, 2, 3, 3, 1, 1);
  const Piece& piece = kernel.stages[0].contraction.pieces[0];
  nest::NestCounts counts;
  run_nest(lower(kernel, plain_schedule(kernel), small_target()), kernel, small_integers(kernel, 1),
           &counts);
  EXPECT_LT(counts.multiply_adds, points(piece));
  EXPECT_EQ(counts.multiply_adds, (3 * 7 - 2) * (3 * 7 - 2) * 2 * 3);
  EXPECT_EQ(counts.guards, 0);
}

TEST(Group, DenseDimensionsMerge) {
  Kernel kernel = scaled_copy({4, 5, 6, 3});
  collapse(kernel);
  EXPECT_EQ(kernel.stages[0].contraction.pieces[0].box, std::vector<int64_t>{360});
  EXPECT_EQ(kernel.tensors[0].shape, Shape{360});
  EXPECT_EQ(kernel.shapes[0], (Shape{4, 5, 6, 3}));
  verify(kernel);
  expect_all_schedules_agree(kernel, 20);
}

TEST(Group, MergingKeepsWhatAccessesTellApart) {
  Kernel product = matrix_product(4, 5, 6), image = convolution(2, 6, 3, 4, 1, 1, 0);
  Kernel before = product;
  collapse(product);
  EXPECT_EQ(print(product), print(before));
  Kernel turned = transpose(4, 5);
  collapse(turned);
  EXPECT_EQ(turned.stages[0].contraction.pieces[0].box.size(), 2U);
}

// A window of one tap is none: its convolution is a product of all pixels' rows.
TEST(Group, OneTapMergesPixels) {
  Kernel kernel = convolution(2, 5, 3, 4, 1, 1, 0);
  const Piece& piece = kernel.stages[0].contraction.pieces[0];
  drop_points(kernel);
  collapse(kernel);
  EXPECT_EQ(piece.parallel_dims, 2U);
  EXPECT_EQ(piece.box[0], 2 * 5 * 5);
  EXPECT_EQ(classify(piece, kernel.stages[0].contraction, kernel.tensors).kind,
            KernelClass::matrix);
  verify(kernel);
  expect_all_schedules_agree(kernel, 20);
}

// Rule 3.3: strided inputs run without a copy; merged dimensions are split again for them.
TEST(Group, StridesOfMergedDimensions) {
  Kernel kernel = scaled_copy({4, 6});
  collapse(kernel);
  Schedule schedule = analytic_schedule(kernel, small_target());
  nest::Nest dense = lower(kernel, schedule, small_target(), {{6, 1}, {}});
  EXPECT_EQ(dense.buffers[0].shape, Shape{24});
  nest::Nest strided = lower(kernel, schedule, small_target(), {{1, 4}, {}});
  EXPECT_EQ(strided.buffers[0].shape, (Shape{4, 6}));
  EXPECT_EQ(strided.buffers[0].strides, (std::vector<int64_t>{1, 4}));
  nest::verify(strided);
  Values inputs = small_integers(kernel, 3), expected = inputs;
  brute_force(kernel, expected);
  EXPECT_EQ(difference(kernel, expected, run_nest(strided, kernel, inputs)), "");
}

TEST(Group, KernelsPrintAndParse) {
  Kernel kernel = matrix_bias_gelu(6, 18, 7);
  auto source = std::make_shared<const Source>(Source{"k", print(kernel)});
  Kernel again = parse_kernel(source);
  EXPECT_EQ(print(again), source->text);
  EXPECT_EQ(again.stages.size(), 3U);
  verify(again);
}

// The gradient's latest operand is a number that all rows share, others are made of a row's sum on
// the way, and the loss stands between: one kernel makes rows and gradient, and the sum over all
// rows comes behind it.
TEST(Group, AGradientJoinsTheRowsThatItsSumsCameFrom) {
  const std::string forward =
      " Top[m: M] = >(X[m, n]); S[m: M] = +(exp(X[m, n] - Top[m])); R = log(S) + Top;"
      " T[] = +(R[m]); L = T / M; DT = DL / M; DS = DT / S;";
  std::vector<Kernel> kernels =
      kernels_of("function (X[M, N], DL[]) -> (L, DX) {" + forward +
                     " DX[m, n: M, N] = +(DS[m] * exp(X[m, n] - Top[m])); }",
                 {f32({512, 4096}), f32({})});
  size_t readers = 0;
  for (const Kernel& k : kernels) {
    bool reads = std::count(k.reads.begin(), k.reads.end(), TensorId(0)) > 0;
    readers += reads ? 1 : 0;
    if (reads) {
      EXPECT_EQ(row_loops(k), 1U);
    }
  }
  EXPECT_EQ(readers, 1U) << "X is read once";
}

// A step that a member needs cannot come behind the members' kernel.
TEST(Group, AGradientOfTheLossItselfStaysApart) {
  std::vector<Kernel> kernels = kernels_of(
      "function (X[M, N]) -> (DX) {"
      " Top[m: M] = >(X[m, n]); S[m: M] = +(exp(X[m, n] - Top[m])); T[] = +(S[m]);"
      " DX[m, n: M, N] = +(T[] * exp(X[m, n] - Top[m])); }",
      {f32({512, 4096})});
  size_t readers = 0;
  for (const Kernel& k : kernels) {
    readers += std::count(k.reads.begin(), k.reads.end(), TensorId(0));
  }
  EXPECT_EQ(readers, 2U);
}

}  // namespace
}  // namespace tile::testing
