#include <gtest/gtest.h>

#include "tests/support/lattice_systems.h"

namespace tile::lattice {
namespace {

using namespace testing;
using Box = std::vector<Interval>;

constexpr int64_t huge = int64_t{1} << 62;

TEST(LatticeBounds, ProjectsOntoEachIterator) {
  Bounds b =
      bounds({2, {access(form({1}), 10), access(form({1, 1}), 12), access(form({0, 1}, -2), 3)}});
  EXPECT_FALSE(b.empty);
  EXPECT_FALSE(b.unbounded);
  EXPECT_EQ(b.box, (Box{{0, 9}, {2, 4}}));
}

TEST(LatticeBounds, NeedsTwoRowsAtOnce) {
  // 0 <= x + y < 9, 0 <= x - y < 5: no row alone bounds an iterator
  Bounds b = bounds({2, {access(form({1, 1}), 9), access(form({1, -1}), 5)}});
  EXPECT_EQ(b.box, (Box{{0, 6}, {-2, 4}}));
}

TEST(LatticeBounds, RoundsToIntegrality) {
  Bounds b = bounds({1, {access(form({Rational(1, 3)}, Rational(1, 3)), 4)}});
  EXPECT_EQ(b.box, (Box{{-1, 8}}));
  b = bounds({1, {access(form({1}), 11), access(form({Rational(1, 3)}), 9)}});
  EXPECT_EQ(b.box, (Box{{0, 9}}));
  b = bounds({1, {{form({1}), 1, 9, true}, access(form({Rational(1, 3)}), 9)}});
  EXPECT_EQ(b.box, (Box{{3, 6}}));
}

TEST(LatticeBounds, FractionalConstraintIsNotAnIntegralityCondition) {  // 0 <= x/3 < 2
  EXPECT_EQ(bounds({1, {constraint(form({Rational(1, 3)}), 2)}}).box, (Box{{0, 5}}));
}

TEST(LatticeBounds, SaysWhichIteratorIsUnbounded) {  // rule 4.6
  Bounds b = bounds({3, {access(form({1}), 4), access(form({0, 1, 1}), 4)}});
  EXPECT_FALSE(b.empty);
  EXPECT_EQ(b.unbounded, std::optional<size_t>(1));
  EXPECT_EQ(bounds({2, {access(form({1}), 4)}}).unbounded, std::optional<size_t>(1));
}

TEST(LatticeBounds, EmptySystems) {  // rule 4.5
  EXPECT_TRUE(bounds({1, {access(form({1}), 0)}}).empty);
  EXPECT_TRUE(bounds({2, {{form({2, 4}), 1, 2, true}}}).empty);
  EXPECT_TRUE(bounds({1, {access(form({1}, Rational(1, 2)), 9)}}).empty);
  EXPECT_TRUE(bounds({1, {access(form({}, 3), 3)}}).empty);
  EXPECT_TRUE(bounds({2, {access(form({1, 1}), 4), {form({1, 1}), 5, 9, true}}}).empty);
  EXPECT_FALSE(bounds({0, {}}).empty);
}

TEST(LatticeBounds, DropsWhatTheBoxImplies) {
  System system{2,
                {access(form({1}), 8), access(form({1, 1}), 10), access(form({1, 1}), 9),
                 access(form({Rational(1, 2)}), 10), constraint(form({Rational(1, 2)}), 10),
                 access(form({0, 1}), 2)}};
  drop_implied(system, Box{{0, 7}, {0, 2}});
  ASSERT_EQ(system.conditions.size(), 3u);
  EXPECT_EQ(system.conditions[0].hi, 9);
  EXPECT_EQ(system.conditions[1].form, form({Rational(1, 2)}));
  EXPECT_TRUE(system.conditions[1].integral);
  EXPECT_EQ(system.conditions[2].hi, 2);
}

TEST(LatticeBounds, OverflowIsAnExceptionNeverAWrongAnswer) {  // rule 3.2
  EXPECT_EQ(bounds({1, {access(form({huge}), huge)}}).box, (Box{{0, 0}}));
  EXPECT_THROW(bounds({1, {constraint(form({Rational(1, huge)}), huge)}}), Overflow);
  EXPECT_THROW(bounds({1, {access(form({1}, -huge), 2 * (huge - 1) + 1)}}), Overflow);
}

TEST(LatticeBounds, CoefficientsNearTheLimitKeepTheirPoint) {
  System wild{3,
              {{form({huge, huge - 1, 3}), -huge, huge, true},
               {form({huge - 3, 5, huge}), -huge, huge, true},
               {form({7, huge, huge - 9}), -huge, huge, true}}};
  try {
    Bounds b = bounds(wild);
    ASSERT_FALSE(b.empty) << "the origin is a point";
    for (const Interval& i : b.box) EXPECT_TRUE(b.unbounded || (i.lo <= 0 && i.hi >= 0));
  } catch (const Overflow&) {
    SUCCEED();
  }
  try {
    EXPECT_NE(emptiness(wild), Emptiness::empty);
  } catch (const Overflow&) {
    SUCCEED();
  }
}

TEST(LatticeEmptiness, ExactWhereTheRelaxationIsNot) {
  EXPECT_EQ(emptiness({2, {{form({2, -2}), 1, 2, true}}}), Emptiness::empty);
  EXPECT_EQ(emptiness({2, {{form({2, 3}), 1, 2, true}}}), Emptiness::inhabited);
  // 1 <= 1000*x - 1001*y <= 5 needs y >= 995
  System thin{
      2, {{form({1000, -1001}), 1, 6, true}, access(form({1}), 4096), access(form({0, 1}), 900)}};
  EXPECT_EQ(emptiness(thin), Emptiness::empty);
  thin.conditions[2].hi = 999;
  EXPECT_EQ(emptiness(thin), Emptiness::inhabited);
}

TEST(LatticeEmptiness, FlattenedCellsAreDistinct) {  // rule 4.7
  // two points (a, b, c) of 12*a + 4*b + c with the same cell, the first one's a ahead
  System system{6, {{form({12, 4, 1, -12, -4, -1}), 0, 1, true}}};
  for (size_t i = 0; i < 6; ++i) {
    int64_t extent = i % 3 == 0 ? 4096 : i % 3 == 1 ? 3 : 4;
    system.conditions.push_back(access(iterator_affine(i), extent));
  }
  system.conditions.push_back({form({1, 0, 0, -1}), 1, 4096, true});
  EXPECT_EQ(emptiness(system), Emptiness::empty);
  system.conditions[2].hi = 4;
  system.conditions[5].hi = 4;
  EXPECT_EQ(emptiness(system), Emptiness::inhabited);
}

TEST(LatticeEmptiness, RespectsTheWorkLimit) {  // rule 4.13
  System system{2, {{form({5, 7}), 0, 9, true}, {form({7, -5}), 1, 9, true}}};
  EXPECT_EQ(emptiness(system, 0), Emptiness::unknown);
  EXPECT_EQ(emptiness(system), Emptiness::inhabited);
}

}  // namespace
}  // namespace tile::lattice
