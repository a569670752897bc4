// The worked examples of spec rule 7.5: one parallel point for each output cell, exact tap ranges.
#include <gtest/gtest.h>

#include "tests/support/lattice_systems.h"

namespace tile::lattice {
namespace {

using namespace testing;
using Strings = std::vector<std::string>;
using Extents = std::vector<int64_t>;

const std::vector<std::string> names = {"v0", "v1", "v2", "v3", "v4", "v5"};

std::string text(const Affine& f) { return to_string(f, names); }

// The old iterators of one piece, written in its own.
Strings iterators_of(const Owned& owned, size_t piece) {
  Strings r;
  for (const Affine& f : owned.to_owned.old_in_new) {
    r.push_back(text(substitute(f, owned.pieces[piece].substitution.old_in_new)));
  }
  return r;
}
Extents extents(const Piece& piece) {
  Extents r;
  for (const Interval& i : piece.box) r.push_back(i.hi + 1);
  return r;
}
size_t guards(const Owned& owned) {
  size_t count = 0;
  for (const Piece& p : owned.pieces) count += p.system.conditions.size();
  return count;
}

// O[3*y + 2*j : 9] = DO[y] * K[j]
System strided() {
  return {2, {access(form({3, 2}), 9), access(form({1}), 3), access(form({0, 1}), 4)}};
}

TEST(LatticeSplit, DataGradientOfStrideThreeHasThreePiecesWithTapsOfTheirOwn) {  // rule 7.5
  std::vector<Affine> outputs{form({3, 2})};
  Owned owned = own(strided(), outputs);
  EXPECT_EQ(owned.parallel_dims, 1u);
  ASSERT_EQ(owned.pieces.size(), 3u);
  EXPECT_EQ(iterators_of(owned, 0), (Strings{"v0 - 2*v1", "3*v1"}));
  EXPECT_EQ(iterators_of(owned, 1), (Strings{"v0 - 2*v1", "3*v1 + 2"}));
  EXPECT_EQ(iterators_of(owned, 2), (Strings{"v0 - 2*v1", "3*v1 + 1"}));
  EXPECT_EQ(extents(owned.pieces[0]), (Extents{3, 2}));
  EXPECT_EQ(extents(owned.pieces[1]), (Extents{2, 1}));
  EXPECT_EQ(extents(owned.pieces[2]), (Extents{3, 1}));
  EXPECT_EQ(fault(strided(), outputs, owned, cube(2, -2, 6)), "");
}

TEST(LatticeSplit, TwoDimensionsHaveNinePieces) {  // rule 7.5
  std::vector<Affine> outputs{form({3, 0, 2}), form({0, 3, 0, 2})};
  System system{
      4,
      {access(outputs[0], 9), access(outputs[1], 9), access(form({1}), 3), access(form({0, 1}), 3),
       access(form({0, 0, 1}), 4), access(form({0, 0, 0, 1}), 4)}};
  Owned owned = own(system, outputs);
  EXPECT_EQ(owned.parallel_dims, 2u);
  EXPECT_EQ(owned.pieces.size(), 9u);
  EXPECT_EQ(fault(system, outputs, owned, cube(4, -1, 5)), "");
}

TEST(LatticeSplit, BeyondTheClassLimitItIsOnePiece) {
  std::vector<Affine> outputs{form({3, 2})};
  Owned owned = own(strided(), outputs, 1);
  EXPECT_EQ(owned.pieces.size(), 1u);
  EXPECT_EQ(fault(strided(), outputs, owned, cube(2, -2, 6)), "");
}

TEST(LatticeSplit, SumAndDifferenceOwnTheirCellsWithoutReduction) {
  std::vector<Affine> outputs{form({1, 1}), form({1, -1}, 3)};
  System system{2,
                {access(outputs[0], 7), access(outputs[1], 7), access(form({1}), 4),
                 access(form({0, 1}), 4)}};
  Owned owned = own(system, outputs);
  EXPECT_EQ(owned.parallel_dims, 2u);
  ASSERT_EQ(owned.pieces.size(), 1u);
  EXPECT_EQ(iterators_of(owned, 0), (Strings{"v0", "v1"}));
  EXPECT_EQ(fault(system, outputs, owned, cube(2, -5, 9)), "");
}

TEST(LatticeSplit, FractionalOutputScalesTheIterator) {
  Affine out = form({Rational(1, 3), 1});
  System system{2, {access(out, 8), access(form({1}), 10), access(form({0, 1}), 4)}};
  Owned owned = own(system, {out});
  EXPECT_EQ(owned.parallel_dims, 1u);
  ASSERT_EQ(owned.pieces.size(), 1u);
  EXPECT_EQ(extents(owned.pieces[0]), (Extents{7, 4}));
  EXPECT_EQ(fault(system, {out}, owned, cube(2, -3, 12)), "");
}

TEST(LatticeSplit, HalvedAccessSplitsByParityAndKeepsTheTaps) {
  // O[x] = I[(x - k + 1)/2] * K[k]
  Affine half = form({Rational(1, 2), Rational(-1, 2)}, Rational(1, 2));
  System system{2, {access(form({1}), 16), access(half, 8), access(form({0, 1}), 3)}};
  Owned owned = own(system, {form({1})});
  ASSERT_EQ(owned.pieces.size(), 2u);
  EXPECT_EQ(iterators_of(owned, 0), (Strings{"2*v0", "2*v1 + 1"}));
  EXPECT_EQ(extents(owned.pieces[0]), (Extents{8, 1}));
  EXPECT_EQ(owned.pieces[0].system.conditions.size(), 0u);
  EXPECT_EQ(iterators_of(owned, 1), (Strings{"2*v0 + 1", "2*v1"}));
  EXPECT_EQ(extents(owned.pieces[1]), (Extents{8, 2}));
  EXPECT_EQ(owned.pieces[1].system.conditions.size(), 1u);
  EXPECT_EQ(fault(system, {form({1})}, owned, cube(2, -2, 18)), "");
}

TEST(LatticeSplit, ScaledCopyHasAnExactBox) {
  // O[2*i : 20] = I[3*i : 12]
  System system{1, {access(form({2}), 20), access(form({3}), 12)}};
  Owned owned = own(system, {form({2})});
  ASSERT_EQ(owned.pieces.size(), 1u);
  EXPECT_EQ(extents(owned.pieces[0]), (Extents{4}));
  EXPECT_EQ(guards(owned), 0u);
}

TEST(LatticeSplit, FlattenKeepsItsDigitsAsParallelDims) {
  Affine out = form({12, 4, 1});
  System system{
      3,
      {access(out, 24), access(form({1}), 2), access(form({0, 1}), 3), access(form({0, 0, 1}), 4)}};
  Owned owned = own(system, {out});
  EXPECT_EQ(owned.parallel_dims, 3u);
  ASSERT_EQ(owned.pieces.size(), 1u);
  EXPECT_EQ(iterators_of(owned, 0), (Strings{"v0", "v1", "v2"}));
  EXPECT_EQ(guards(owned), 0u);
  EXPECT_EQ(fault(system, {out}, owned, cube(3, -1, 5)), "");
}

TEST(LatticeSplit, TriangularConstraint) {
  // O[i] with i - j - k < 3
  System system{3,
                {access(form({1}), 8), access(form({0, 1}), 8), access(form({0, 0, 1}), 8),
                 constraint(form({1, -1, -1}), 3)}};
  Owned owned = own(system, {form({1})});
  ASSERT_EQ(owned.pieces.size(), 1u);
  EXPECT_EQ(fault(system, {form({1})}, owned, cube(3, -1, 9)), "");
}

TEST(LatticeSplit, ConstraintThatIsAnEquationSolvesForAnIterator) {
  // O[a] with 4*a + b - 6*c - d < 1
  System system{4, {constraint(form({4, 1, -6, -1}), 1)}};
  for (size_t i = 0; i < 4; ++i) system.conditions.push_back(access(iterator_affine(i), 6));
  Owned owned = own(system, {form({1})});
  EXPECT_EQ(fault(system, {form({1})}, owned, cube(4, 0, 6)), "");
  int64_t visited = 0;
  for (const Piece& piece : owned.pieces) {
    int64_t box = 1;
    for (int64_t e : extents(piece)) box *= e;
    visited += box;
  }
  EXPECT_LE(visited, 6 * 6 * 6) << "of the 6^4 points of the whole box";
}

TEST(LatticeSplit, RunningSumDoesNotSplit) {
  System system{2,
                {access(form({1}), 10), access(form({0, 1}), 10), constraint(form({1, -1}), 10)}};
  Owned owned = own(system, {form({1})});
  ASSERT_EQ(owned.pieces.size(), 1u);
  EXPECT_EQ(iterators_of(owned, 0), (Strings{"v0", "v1"}));
  EXPECT_EQ(guards(owned), 1u);
}

TEST(LatticeSplit, WindowConstraintBoundsTheReduction) {
  // O[i] = I[k] with i - k + 1 < 3
  System system{2,
                {access(form({1}), 10), access(form({0, 1}), 10), constraint(form({1, -1}, 1), 3)}};
  Owned owned = own(system, {form({1})});
  ASSERT_EQ(owned.pieces.size(), 1u);
  EXPECT_EQ(extents(owned.pieces[0]), (Extents{10, 3}));
  EXPECT_EQ(fault(system, {form({1})}, owned, cube(2, -1, 11)), "");
}

TEST(LatticeSplit, MatrixProductAndConvolutionStayAsTheyAre) {
  System product{3,
                 {access(form({1}), 5), access(form({0, 0, 1}), 7), access(form({0, 0, 1}), 7),
                  access(form({0, 1}), 6), access(form({1}), 5), access(form({0, 1}), 6)}};
  Owned owned = own(product, {form({1}), form({0, 1})});
  ASSERT_EQ(owned.pieces.size(), 1u);
  EXPECT_EQ(iterators_of(owned, 0), (Strings{"v0", "v1", "v2"}));
  EXPECT_EQ(extents(owned.pieces[0]), (Extents{5, 6, 7}));
  EXPECT_EQ(guards(owned), 0u);

  System convolution{2, {access(form({1}), 8), access(form({1, 1}), 10), access(form({0, 1}), 3)}};
  owned = own(convolution, {form({1})});
  ASSERT_EQ(owned.pieces.size(), 1u);
  EXPECT_EQ(iterators_of(owned, 0), (Strings{"v0", "v1"}));
  EXPECT_EQ(guards(owned), 0u) << "the box implies the access";
}

TEST(LatticeSplit, PaddedConvolutionKeepsOneGuard) {
  System system{2, {access(form({1}), 10), access(form({1, 1}, -1), 10), access(form({0, 1}), 3)}};
  Owned owned = own(system, {form({1})});
  ASSERT_EQ(owned.pieces.size(), 1u);
  EXPECT_EQ(iterators_of(owned, 0), (Strings{"v0", "v1"}));
  ASSERT_EQ(guards(owned), 1u);
  EXPECT_EQ(text(owned.pieces[0].system.conditions[0].form), "v0 + v1 - 1");
}

TEST(LatticeSplit, StridedWeightGradientDoesNotSplit) {
  // DK[k] = I[2*x + k - 1] * DO[x]
  System system{2, {access(form({1}), 3), access(form({1, 2}, -1), 7), access(form({0, 1}), 4)}};
  EXPECT_EQ(own(system, {form({1})}).pieces.size(), 1u);
}

TEST(LatticeSplit, ReshapeDoesNotSplitForSmallGain) {
  // O[p, q] (8 x 3) = I[i, j] (6 x 4) with 3*p + q - 4*i - j < 1
  System system{4,
                {access(form({1}), 8), access(form({0, 1}), 3), access(form({0, 0, 1}), 6),
                 access(form({0, 0, 0, 1}), 4), constraint(form({3, 1, -4, -1}), 1)}};
  std::vector<Affine> outputs{form({1}), form({0, 1})};
  Owned owned = own(system, outputs);
  ASSERT_EQ(owned.pieces.size(), 1u);
  EXPECT_EQ(fault(system, outputs, owned, cube(4, -1, 8)), "");
}

TEST(LatticeSplit, ConditionsThatOthersImplyAreDropped) {
  // 0 <= a - b and 0 <= b - c imply 0 <= a - c
  System system{3,
                {access(form({1}), 9), access(form({0, 1}), 9), access(form({0, 0, 1}), 9),
                 constraint(form({1, -1}), 9), constraint(form({0, 1, -1}), 9),
                 constraint(form({1, 0, -1}), 9)}};
  std::vector<Affine> outputs{form({1}), form({0, 1}), form({0, 0, 1})};
  Owned owned = own(system, outputs);
  EXPECT_EQ(guards(owned), 2u);
  EXPECT_EQ(fault(system, outputs, owned, cube(3, -1, 10)), "");
}

TEST(LatticeSplit, EmptySystemsHaveNoPieces) {
  System zero{2, {access(form({1}), 0), access(form({0, 1}), 4)}};
  EXPECT_TRUE(own(zero, {form({1})}).empty);
  EXPECT_TRUE(split(zero, 1).empty());
  System parity{2, {access(form({1}), 9), access(form({0, 1}), 9), {form({2, -2}), 1, 2, true}}};
  EXPECT_TRUE(split(parity, 1).empty());
}

TEST(LatticeSplit, SizeOneKeepsItsIterator) {
  System system{2, {access(form({1}), 1), access(form({0, 1}), 1)}};
  Owned owned = own(system, {form({1})});
  ASSERT_EQ(owned.pieces.size(), 1u);
  EXPECT_EQ(extents(owned.pieces[0]), (Extents{1, 1}));
}

}  // namespace
}  // namespace tile::lattice
