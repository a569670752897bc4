// Hermite normal form, integrality, ownership: changes of basis.
#include <gtest/gtest.h>

#include <random>

#include "tests/support/lattice_systems.h"

namespace tile::lattice {
namespace {

using namespace testing;
using Forms = std::vector<Affine>;

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix r;
  for (const auto& row : a) {
    r.emplace_back(b[0].size(), 0);
    for (size_t k = 0; k < row.size(); ++k) {
      for (size_t j = 0; j < r.back().size(); ++j) r.back()[j] += row[k] * b[k][j];
    }
  }
  return r;
}

int64_t determinant(const Matrix& m) {  // by minors; small matrices only
  if (m.empty()) return 1;
  int64_t sum = 0;
  for (size_t c = 0; c < m.size(); ++c) {
    Matrix minor;
    for (size_t r = 1; r < m.size(); ++r) {
      minor.push_back(m[r]);
      minor.back().erase(minor.back().begin() + std::ptrdiff_t(c));
    }
    sum += (c % 2 ? -1 : 1) * m[0][c] * determinant(minor);
  }
  return sum;
}

void expect_normal(const Hermite& h, size_t columns) {
  size_t below = 0;  // the first row that the next pivot may be in
  for (size_t c = 0; c < columns; ++c) {
    size_t pivot = 0;
    while (pivot < h.form.size() && h.form[pivot][c] == 0) ++pivot;
    if (c >= h.rank) {
      EXPECT_EQ(pivot, h.form.size()) << "a column after the rank is zero";
      continue;
    }
    ASSERT_LT(pivot, h.form.size());
    EXPECT_GE(pivot, below);
    EXPECT_GT(h.form[pivot][c], 0);
    for (size_t left = 0; left < c; ++left) {
      EXPECT_GE(h.form[pivot][left], 0);
      EXPECT_LT(h.form[pivot][left], h.form[pivot][c]);
    }
    below = pivot + 1;
  }
}

TEST(LatticeHermite, RandomMatrices) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    size_t rows = random() % 5, columns = 1 + random() % 4;
    Matrix m(rows, Vector(columns));
    for (auto& row : m) {
      for (int64_t& v : row) v = int64_t(random() % 13) - 6;
    }
    Hermite h = hermite_normal_form(m, columns);
    EXPECT_EQ(product(m, h.transform), h.form);
    EXPECT_EQ(std::abs(determinant(h.transform)), 1);
    expect_normal(h, columns);
  }
}

TEST(LatticeHermite, KnownForms) {
  Hermite h = hermite_normal_form({{3, 2}}, 2);
  EXPECT_EQ(h.form, (Matrix{{1, 0}}));
  EXPECT_EQ(h.rank, 1u);
  EXPECT_EQ(hermite_normal_form({{1, 1}, {1, -1}}, 2).form, (Matrix{{1, 0}, {1, 2}}));
}

TEST(LatticeHermite, OverflowIsAnException) {
  int64_t huge = int64_t{1} << 62;
  Matrix wild{{huge - 1, huge - 3, 5}, {huge - 7, 11, huge - 5}, {3, huge, 9}};
  EXPECT_THROW(hermite_normal_form(wild, 3), Overflow);
}

TEST(LatticeIntegrality, ScalesOnlyWhatMustBe) {
  System system{2, {access(form({Rational(1, 3), 1}), 8)}};
  std::optional<Substitution> s = solve_integrality(system);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->old_in_new, (Forms{form({3}), form({0, 1})}));
  EXPECT_TRUE(rewritten(system, *s).conditions[0].form.is_integral());
}

TEST(LatticeIntegrality, ConstraintsStayRational) {
  std::optional<Substitution> s = solve_integrality({1, {constraint(form({Rational(1, 2)}), 8)}});
  ASSERT_TRUE(s);
  EXPECT_EQ(s->old_in_new, (Forms{form({1})}));
}

TEST(LatticeIntegrality, NoIntegerPoint) {
  EXPECT_FALSE(solve_integrality({1, {access(form({1}, Rational(1, 2)), 8)}}));
  EXPECT_FALSE(solve_integrality(
      {1, {access(form({Rational(1, 4)}, Rational(1, 2)), 8), access(form({Rational(1, 4)}), 8)}}));
}

// The new iterators that stand for x: exactly one point, or none.
void expect_one_preimage(const Substitution& s, const Point& x) {
  System preimage{s.iterators, {}};
  for (size_t i = 0; i < x.size(); ++i) {
    preimage.conditions.push_back({s.old_in_new[i], x[i], x[i] + 1, true});
  }
  Bounds b = bounds(preimage);
  ASSERT_FALSE(b.empty || b.unbounded);
  for (const Interval& i : b.box) EXPECT_EQ(i.lo, i.hi);
}

TEST(LatticeIntegrality, OneToOneOntoThePoints) {
  std::mt19937 random(3);
  int solved = 0;
  for (int round = 0; round < 200; ++round) {
    System system{3, {}};
    size_t conditions = 1 + random() % 3;
    for (size_t c = 0; c < conditions; ++c) {
      decltype(Affine::coefficients) a;
      for (int i = 0; i < 3; ++i) a.emplace_back(int64_t(random() % 7) - 3, 1 + random() % 4);
      Rational constant(int64_t(random() % 5), 1 + random() % 3);
      system.conditions.push_back({form(a, constant), -1000000, 1000000, true});
    }
    std::set<Point> expected = points(system, cube(3, -3, 3));
    std::optional<Substitution> s = solve_integrality(system);
    if (!s) {
      EXPECT_TRUE(points(system, cube(3, 0, 11)).empty());  // a whole period of every residue
      continue;
    }
    ++solved;
    for (const Condition& c : rewritten(system, *s).conditions) EXPECT_TRUE(c.form.is_integral());
    for (const Point& x : expected) expect_one_preimage(*s, x);
    for_each_point(cube(3, -4, 4),
                   [&](const Point& z) { EXPECT_TRUE(holds(system, image(*s, z))); });
  }
  EXPECT_GT(solved, 50);
}

TEST(LatticeOwnership, IndependentIteratorsStay) {
  Ownership o = own_outputs(3, Forms{form({1}), form({0, 1})});
  EXPECT_EQ(o.parallel_dims, 2u);
  EXPECT_EQ(o.substitution.old_in_new,
            (Forms{iterator_affine(0), iterator_affine(1), iterator_affine(2)}));
  o = own_outputs(3, Forms{form({0, 0, 1}), form({1})});
  EXPECT_EQ(o.parallel_dims, 2u);
  EXPECT_EQ(o.substitution.old_in_new,
            (Forms{iterator_affine(0), iterator_affine(2), iterator_affine(1)}));
}

TEST(LatticeOwnership, EntangledIteratorsSeparate) {
  Forms outputs{form({0, 3, 2}), form({1})};
  Ownership o = own_outputs(3, outputs);
  EXPECT_EQ(o.parallel_dims, 2u);
  EXPECT_TRUE(rewritten(outputs, o.substitution)[0].coefficient(2).is_zero());
  EXPECT_EQ(o.substitution.old_in_new[0], iterator_affine(0));
}

TEST(LatticeOwnership, MixedRadixNeedsTheBox) {
  Forms outputs{form({12, 4, 1})};
  EXPECT_EQ(own_outputs(3, outputs).parallel_dims, 1u);
  std::vector<Interval> box{{0, 9}, {0, 2}, {0, 3}};
  EXPECT_EQ(own_outputs(3, outputs, box).parallel_dims, 3u);
  box[2].hi = 4;
  EXPECT_EQ(own_outputs(3, outputs, box).parallel_dims, 1u);
}

TEST(LatticeOwnership, NoOutputsMeansAllIsReduced) {
  Ownership o = own_outputs(2, Forms{});
  EXPECT_EQ(o.parallel_dims, 0u);
  EXPECT_EQ(o.substitution.old_in_new, (Forms{iterator_affine(0), iterator_affine(1)}));
}

}  // namespace
}  // namespace tile::lattice
