// Random systems: isl is the oracle for emptiness, bounds and the pieces of `split`.
#include <gtest/gtest.h>

#include <chrono>
#include <iostream>
#include <random>

#include "tests/lattice/oracle.h"
#include "tests/support/lattice_systems.h"

namespace tile::lattice {
namespace {

using namespace testing;

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int64_t between(int64_t lo, int64_t hi) {
    return lo + int64_t(engine_() % uint64_t(hi - lo + 1));
  }
  bool one_in(int64_t n) { return between(1, n) == 1; }

  Affine form(size_t iterators, int64_t size, int64_t denominator) {
    Affine f;
    for (size_t i = 0; i < iterators; ++i) {
      int64_t numerator = one_in(2) ? 0 : between(-size, size);
      f.coefficients.emplace_back(numerator, one_in(3) ? between(1, denominator) : 1);
    }
    f.constant = Rational(between(-size, size), one_in(3) ? between(1, denominator) : 1);
    return f;
  }

 private:
  std::mt19937 engine_;
};

std::string text(const System& system) {
  std::vector<std::string> names;
  for (size_t i = 0; i < system.iterators; ++i) names.push_back("x" + std::to_string(i));
  std::string r;
  for (const Condition& c : system.conditions) {
    r += std::to_string(c.lo) + " <= " + to_string(c.form, names) + " < " + std::to_string(c.hi) +
         (c.integral ? "; " : " (fractional); ");
  }
  return r;
}

// Intervals for most iterators and some rows across them, thin ones among them.
System random_system(Random& random, size_t iterators, int64_t extent, int64_t size) {
  System system{iterators, {}};
  for (size_t i = 0; i < iterators; ++i) {
    if (random.one_in(8)) continue;
    int64_t lo = random.between(-3, 3);
    system.conditions.push_back({iterator_affine(i), lo, lo + random.between(1, extent), true});
  }
  int64_t rows = random.between(1, 4);
  for (int64_t r = 0; r < rows; ++r) {
    int64_t lo = random.between(-5, 5), width = random.one_in(2) ? 3 : extent * size;
    bool integral = random.one_in(2);
    system.conditions.push_back({random.form(iterators, size, integral ? 4 : 3), lo,
                                 lo + random.between(1, width), integral});
  }
  return system;
}

TEST(LatticeOracle, Emptiness) {
  Oracle oracle;
  Random random(11);
  int empty = 0, inhabited = 0;
  for (int round = 0; round < 1500; ++round) {
    size_t iterators = size_t(random.between(1, 6));
    System system =
        random_system(random, iterators, random.one_in(2) ? 6 : 4096, random.one_in(3) ? 60 : 6);
    bool expected = oracle.empty(oracle.points(system));
    (expected ? empty : inhabited) += 1;
    EXPECT_EQ(emptiness(system), expected ? Emptiness::empty : Emptiness::inhabited)
        << text(system);
  }
  EXPECT_GT(empty, 150);
  EXPECT_GT(inhabited, 150);
}

// Coefficients and constants near 2^62: the right answer or an exception.
TEST(LatticeOracle, HugeCoefficientsAreRightOrThrow) {
  constexpr int64_t huge = int64_t{1} << 62;
  Oracle oracle;
  Random random(17);
  int answered = 0, threw = 0;
  for (int round = 0; round < 1500; ++round) {
    size_t iterators = size_t(random.between(1, 3));
    System system = random_system(random, iterators, random.one_in(2) ? 6 : int64_t{1} << 40, 6);
    for (Condition& c : system.conditions) {
      for (Rational& a : c.form.coefficients) {
        if (a.is_integer() && random.one_in(6)) a = huge - random.between(-3, 3);
      }
      if (random.one_in(6)) c.form.constant = random.between(-3, 3) - huge;
      if (random.one_in(4)) c.hi = huge - random.between(0, 3);
    }
    if (text(system).find("/") != std::string::npos && random.one_in(2)) continue;
    try {
      Emptiness found = emptiness(system, 2000);
      bool expected = oracle.empty(oracle.points(system));
      EXPECT_NE(found, expected ? Emptiness::inhabited : Emptiness::empty) << text(system);
      ++answered;
      Bounds b = bounds(system);
      if (expected || b.unbounded) continue;
      ASSERT_FALSE(b.empty) << text(system);
      for (size_t i = 0; i < iterators; ++i) {
        Interval hull = oracle.range(oracle.points(system), i);
        EXPECT_LE(b.box[i].lo, hull.lo) << text(system);
        EXPECT_GE(b.box[i].hi, hull.hi) << text(system);
      }
    } catch (const Overflow&) {
      ++threw;
    }
  }
  EXPECT_GT(answered, 200);
  EXPECT_GT(threw, 20);
}

// Two points of one cell: what the injectivity test of `=` asks.
TEST(LatticeOracle, EmptinessOfCollisions) {
  Oracle oracle;
  Random random(5);
  int empty = 0, inhabited = 0;
  for (int round = 0; round < 400; ++round) {
    size_t iterators = size_t(random.between(1, 4)), outputs = size_t(random.between(1, 3));
    System system{2 * iterators, {}};
    for (size_t i = 0; i < iterators; ++i) {
      int64_t extent = random.between(1, random.one_in(2) ? 5 : 4096);
      system.conditions.push_back(access(iterator_affine(i), extent));
      system.conditions.push_back(access(iterator_affine(iterators + i), extent));
    }
    for (size_t o = 0; o < outputs; ++o) {
      Affine f = random.form(iterators, 12, 1), twin;
      f.coefficients.resize(2 * iterators);
      for (size_t i = 0; i < iterators; ++i) f.coefficients[iterators + i] = -f.coefficients[i];
      f.constant = 0;
      system.conditions.push_back({f, 0, 1, true});
    }
    Affine ahead = iterator_affine(0) - iterator_affine(iterators);
    system.conditions.push_back({ahead, 1, 5000, true});
    bool expected = oracle.empty(oracle.points(system));
    (expected ? empty : inhabited) += 1;
    EXPECT_EQ(emptiness(system), expected ? Emptiness::empty : Emptiness::inhabited)
        << text(system);
  }
  EXPECT_GT(empty, 40);
  EXPECT_GT(inhabited, 40);
}

// Nearly mixed-radix outputs: thin sets of two points of one cell, with large coefficients.
TEST(LatticeOracle, EmptinessOfNearlyFlatCells) {
  Oracle oracle;
  Random random(41);
  int empty = 0, inhabited = 0;
  for (int round = 0; round < 200; ++round) {
    size_t iterators = size_t(random.between(2, 4));
    System system{2 * iterators, {}};
    Affine f;
    f.coefficients.resize(2 * iterators);
    int64_t stride = 1;
    for (size_t i = 0; i < iterators; ++i) {
      int64_t extent = random.between(1, 64);
      system.conditions.push_back(access(iterator_affine(i), extent));
      system.conditions.push_back(access(iterator_affine(iterators + i), extent));
      int64_t coefficient = stride + (random.one_in(3) ? random.between(-3, 3) : 0);
      f.coefficients[i] = coefficient;
      f.coefficients[iterators + i] = -coefficient;
      stride *= extent;
    }
    system.conditions.push_back({f, 0, 1, true});
    size_t ahead = size_t(random.between(0, int64_t(iterators) - 1));
    system.conditions.push_back(
        {iterator_affine(ahead) - iterator_affine(iterators + ahead), 1, 64, true});
    bool expected = oracle.empty(oracle.points(system));
    (expected ? empty : inhabited) += 1;
    EXPECT_EQ(emptiness(system), expected ? Emptiness::empty : Emptiness::inhabited)
        << text(system);
  }
  EXPECT_GT(empty, 20);
  EXPECT_GT(inhabited, 20);
}

TEST(LatticeOracle, BoundsHoldEveryPoint) {
  Oracle oracle;
  Random random(23);
  int exact = 0, total = 0;
  for (int round = 0; round < 1000; ++round) {
    System system =
        random_system(random, size_t(random.between(1, 4)), random.one_in(2) ? 6 : 4096, 6);
    Oracle::Set set = oracle.points(system);
    Bounds b = bounds(system);
    if (oracle.empty(set)) continue;
    ASSERT_FALSE(b.empty) << text(system);
    ASSERT_EQ(b.unbounded.has_value(), !oracle.bounded(set)) << text(system);
    if (b.unbounded) continue;
    for (size_t i = 0; i < system.iterators; ++i) {
      Interval hull = oracle.range(set, i);
      EXPECT_LE(b.box[i].lo, hull.lo) << text(system) << "unknown " << i;
      EXPECT_GE(b.box[i].hi, hull.hi) << text(system) << "unknown " << i;
      exact += b.box[i] == hull;
      ++total;
    }
  }
  EXPECT_GT(total, 300);
  EXPECT_GT(exact * 10, total * 8) << "the relaxation is nearly always exact";
}

// A contraction: outputs and accesses with small coefficients, sizes that mostly fit.
struct Contraction {
  System system;
  std::vector<Affine> outputs;
};
Contraction random_contraction(Random& random, size_t iterators, int64_t extent) {
  Contraction c{{iterators, {}}, {}};
  for (size_t i = 0; i < iterators; ++i) {
    c.system.conditions.push_back(access(iterator_affine(i), random.between(1, extent)));
  }
  int64_t outputs = random.between(1, 2), accesses = random.between(0, 2);
  for (int64_t o = 0; o < outputs; ++o) {
    c.outputs.push_back(random.form(iterators, 3, random.one_in(4) ? 2 : 1));
    c.system.conditions.push_back(access(c.outputs.back(), random.between(extent, 4 * extent)));
  }
  for (int64_t a = 0; a < accesses; ++a) {
    Affine f = random.form(iterators, 3, random.one_in(3) ? 3 : 1);
    bool thin = random.one_in(3);  // the relaxation's box is then often not exact
    Condition condition = access(f, thin ? random.between(1, 3) : random.between(2, 3 * extent));
    condition.integral = !random.one_in(4);
    c.system.conditions.push_back(condition);
  }
  return c;
}

TEST(LatticeOracle, PiecesByBruteForce) {
  Random random(31);
  int pieces = 0, split_up = 0;
  for (int round = 0; round < 3000; ++round) {
    size_t iterators = size_t(random.between(1, 4));
    Contraction c = random_contraction(random, iterators, 6);
    Owned owned = own(c.system, c.outputs, random.one_in(4) ? 3 : 64);
    EXPECT_EQ(fault(c.system, c.outputs, owned, cube(iterators, 0, 5)), "") << text(c.system);
    pieces += int(owned.pieces.size());
    split_up += owned.pieces.size() > 1;
  }
  EXPECT_GT(pieces, 500);
  EXPECT_GT(split_up, 50);
}

TEST(LatticeOracle, PiecesOfLargeDomains) {
  Oracle oracle;
  Random random(37);
  int checked = 0;
  for (int round = 0; round < 250; ++round) {
    size_t iterators = size_t(random.between(1, 4));
    Contraction c = random_contraction(random, iterators, 300);
    Owned owned = own(c.system, c.outputs, 16);
    Oracle::Set expected = oracle.points(c.system);
    if (owned.pieces.empty()) {
      EXPECT_TRUE(oracle.empty(expected)) << text(c.system);
      continue;
    }
    Oracle::Set all;
    for (const Piece& piece : owned.pieces) {
      Oracle::Set points = oracle.points(piece, owned.to_owned);
      EXPECT_TRUE(!all || oracle.disjoint(all, points)) << text(c.system);
      all = all ? oracle.unite(all, points) : points;
      Oracle::Set own_points = oracle.piece_points(piece);
      for (size_t i = 0; i < piece.box.size(); ++i) {
        EXPECT_EQ(oracle.range(own_points, i), piece.box[i]) << text(c.system);
      }
    }
    EXPECT_TRUE(oracle.equal(all, expected)) << text(c.system);
    ++checked;
  }
  EXPECT_GT(checked, 50);
}

TEST(LatticeOracle, PointsOfThreeByTwoAreCounted) {  // rule 7.5
  Oracle oracle;
  System system{2, {access(form({3, 2}), 305), access(form({1}), 100), access(form({0, 1}), 4)}};
  Owned owned = own(system, {form({3, 2})});
  ASSERT_EQ(owned.pieces.size(), 3u);
  int64_t count = 0, visited = 0;
  for (const Piece& piece : owned.pieces) {
    count += oracle.count(oracle.piece_points(piece));
    int64_t box = 1;
    for (const Interval& i : piece.box) box *= i.hi + 1;
    visited += box;
  }
  EXPECT_EQ(count, 400);
  EXPECT_LE(visited, 408) << "the boxes hold little more than the points";
}

// Prints what a cold compile pays; asserts nothing about time.
TEST(LatticeCost, MatrixProductAndConvolution) {
  auto measure = [](const char* what, const System& system, const std::vector<Affine>& outputs) {
    constexpr int rounds = 50;
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < rounds; ++i) EXPECT_EQ(own(system, outputs).pieces.size(), 1u);
    std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
    std::cout << what << ": " << spent.count() / rounds << " us\n";
  };
  auto x = [](size_t i) { return iterator_affine(i); };
  measure("matrix product",
          {3,
           {access(x(0), 512), access(x(1), 512), access(x(0), 512), access(x(2), 512),
            access(x(2), 512), access(x(1), 512)}},
          {x(0), x(1)});
  // n, y, x, co, ky, kx, ci with padding 1
  Affine row = x(1) + x(4) - constant_affine(1), column = x(2) + x(5) - constant_affine(1);
  measure("convolution",
          {7,
           {access(x(0), 8), access(x(1), 56), access(x(2), 56), access(x(3), 64), access(x(4), 3),
            access(x(5), 3), access(x(6), 64), access(x(3), 64), access(x(0), 8), access(row, 56),
            access(column, 56), access(x(6), 64)}},
          {x(0), x(1), x(2), x(3)});
}

}  // namespace
}  // namespace tile::lattice
