// Reductions cut into chunks whose partial results are then combined.
#include "tests/support/after_passes.h"

namespace tile::test {
namespace {

Target threads_with(int threads, int64_t l2_bytes) {
  Target target = testing::wide_target();
  target.threads = threads;
  target.l2_bytes = l2_bytes;
  target.l3_bytes_per_ns = 20;
  target.fma_per_ns = 32;
  return target;
}

constexpr const char* kProduct =
    "function (A[M, L], B[L, N]) -> (C) { C[i, j : M, N] = +(A[i, k] * B[k, j]); }";
constexpr int64_t kSmallCache = 64 << 10;

// Sixteen rows and columns of two thousand terms from far memory: two threads that divided the rows
// would both read all of B.
TEST(SplitReduction, LongSumsToASmallResultAreDividedAmongThreads) {
  BoundProgram p = after_passes(kProduct, {{16, 2048}, {2048, 16}}, threads_with(2, kSmallCache));
  ASSERT_EQ(p.statements.size(), 2U) << print(p);
  const auto& partial = std::get<Contraction>(p.statements[0]);
  EXPECT_EQ(partial.pieces.at(0).box, (std::vector<int64_t>{8, 16, 16, 256}));
}

TEST(SplitReduction, ChunksNeedNotBeEqual) {
  BoundProgram p = after_passes(kProduct, {{17, 2049}, {2049, 15}}, threads_with(2, kSmallCache));
  ASSERT_EQ(p.statements.size(), 2U) << print(p);
  const auto& partial = std::get<Contraction>(p.statements[0]);
  EXPECT_EQ(partial.pieces.at(0).constraints.size(), 1U);
}

// One thread; operands that a core's own cache holds; arithmetic that hides the reading; results
// that are not small beside the operands.
TEST(SplitReduction, OtherProductsStayAsTheyAre) {
  auto statements = [](const std::vector<Shape>& shapes, const Target& target) {
    return after_passes(kProduct, shapes, target).statements.size();
  };
  EXPECT_EQ(statements({{16, 2048}, {2048, 16}}, threads_with(1, kSmallCache)), 1U);
  EXPECT_EQ(statements({{16, 2048}, {2048, 16}}, threads_with(2, 1 << 20)), 1U);
  Target slow = threads_with(2, kSmallCache);
  slow.fma_per_ns = 2;
  EXPECT_EQ(statements({{16, 2048}, {2048, 16}}, slow), 1U);
  EXPECT_EQ(statements({{64, 256}, {256, 64}}, threads_with(2, kSmallCache)), 1U);
}

TEST(SplitReduction, FewCellsAreDividedOnAnyMachine) {
  BoundProgram p = after_passes("function (X[M, N]) -> (O) { O[] = +(X[m, n]); }", {{1024, 512}},
                                threads_with(1, 1 << 20));
  EXPECT_EQ(p.statements.size(), 2U) << print(p);
}

// The program has a tensor of the name that partial sums would have.
TEST(SplitReduction, PartialSumsHaveNamesOfTheirOwn) {
  BoundProgram p = after_passes(
      "function (X[M, N]) -> (O, O_partial) { O[] = +(X[m, n]); O_partial = X * 2.0; }",
      {{1024, 512}}, threads_with(1, 1 << 20));
  EXPECT_EQ(p.statements.size(), 3U) << print(p);
  EXPECT_NE(print(p).find("tensor O_partial_1: "), std::string::npos) << print(p);
}

}  // namespace
}  // namespace tile::test
