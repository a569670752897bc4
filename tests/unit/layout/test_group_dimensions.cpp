// Factors of contractions copied to where the dimensions of rows, columns and terms stand together.
#include "core/fusion/group.h"
#include "tests/support/after_passes.h"

namespace tile::test {
namespace {

Target one_thread() {
  Target target = testing::wide_target();
  target.threads = 1;
  return target;
}

constexpr const char* kAlternating =
    "function (X[A, E, B, F], Y[D, F, C, E]) -> (O) {"
    " O[a, b, c, d : A, B, C, D] = +(X[a, e, b, f] * Y[d, f, c, e]); }";

TEST(GroupDimensions, AlternatingDimensionsBecomeThoseOfMatrices) {
  BoundProgram p = after_passes(kAlternating, {{8, 12, 9, 24}, {17, 24, 5, 12}}, one_thread());
  EXPECT_EQ(p.statements.size(), 3U) << print(p);
  std::vector<Step> steps = group(p, one_thread());
  const Piece& product = std::get<Kernel>(steps.back()).stages[0].contraction.pieces.at(0);
  EXPECT_EQ(product.box, (std::vector<int64_t>{72, 85, 288}));
}

TEST(GroupDimensions, OneFactorIsEnoughWhereTheOtherIsGrouped) {
  BoundProgram p = after_passes(
      "function (X[A, B, E, F], Y[D, F, C, E]) -> (O) {"
      " O[a, b, c, d : A, B, C, D] = +(X[a, b, e, f] * Y[d, f, c, e]); }",
      {{8, 9, 12, 24}, {9, 24, 8, 12}}, one_thread());
  EXPECT_LE(p.statements.size(), 2U) << print(p);
}

// Little work, groups that others interrupt in the result, a matrix already.
TEST(GroupDimensions, OthersStayAsTheyAre) {
  BoundProgram small = after_passes(kAlternating, {{3, 5, 2, 4}, {4, 4, 3, 5}}, one_thread());
  EXPECT_EQ(small.statements.size(), 1U);
  BoundProgram wide =
      bind_text(kAlternating, {{DType::f64, {8, 12, 9, 24}}, {DType::f64, {17, 24, 5, 12}}});
  run_pipeline(wide, one_thread(), {});
  EXPECT_EQ(wide.statements.size(), 1U);
  BoundProgram apart = after_passes(
      "function (X[E, A, F, D], Y[F, B, E, C]) -> (O) {"
      " O[a, b, c, d : A, B, C, D] = +(X[e, a, f, d] * Y[f, b, e, c]); }",
      {{12, 8, 24, 9}, {24, 8, 12, 9}}, one_thread());
  EXPECT_EQ(apart.statements.size(), 1U);
  BoundProgram matrix =
      after_passes("function (X[M, K], Y[K, N]) -> (O) { O[m, n : M, N] = +(X[m, k] * Y[k, n]); }",
                   {{128, 96}, {96, 100}}, one_thread());
  EXPECT_EQ(matrix.statements.size(), 1U);
}

}  // namespace
}  // namespace tile::test
