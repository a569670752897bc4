// Simple systems: what is told of a part without a search is what a visit of all points finds.
#include <gtest/gtest.h>

#include <random>

#include "core/lattice/simple_system.h"
#include "tests/support/lattice_systems.h"

namespace tile::lattice {
namespace {

using namespace testing;

class RandomParts {
 public:
  explicit RandomParts(uint64_t seed) : random_(seed) {
    for (int i = 0; i < 3; ++i) {
      int64_t lo = below(4) - 2;
      box_.push_back({lo, lo + below(5)});
      system_.conditions.push_back({form_of({i}), lo, box_.back().hi + 1, true});
    }
    system_.iterators = 3;
    tied_ = form_of(below(2) == 0 ? std::vector<int>{0, 1} : std::vector<int>{0, 1, 2});
    int64_t lo = below(9) - 4;
    system_.conditions.push_back({tied_, lo, lo + 1 + below(8), true});
    for (const Interval& interval : box_) {
      int64_t first = interval.lo + below(interval.hi - interval.lo + 1);
      part_.push_back({first, first + below(interval.hi - first + 1)});
    }
  }

  // How many of the part's intervals and forms were told.
  int check() {
    Bounds bounds = lattice::bounds(system_);
    std::optional<SimpleSystem> simple = SimpleSystem::of(system_, bounds);
    if (!simple) return 0;
    for (size_t i = 0; i < 3; ++i) {
      part_[i].lo = std::max(part_[i].lo, bounds.box[i].lo);
      part_[i].hi = std::min(part_[i].hi, bounds.box[i].hi);
    }
    std::optional<SimpleSystem::Part> part = simple->part(part_);
    if (!part) return 0;
    bool none = false;
    for (const Interval& interval : part->values()) none = none || interval.empty();
    EXPECT_EQ(none, visited(form_of({0})).empty());
    if (none) return 1;
    int told = 0;
    std::vector<Affine> forms{
        form_of({0}),   form_of({1}), form_of({2}), form_of({0, 2}), tied_ + constant_affine(3),
        form_of({0, 1})};
    for (const Affine& form : forms) {
      std::optional<Interval> values = part->of(form);
      if (!values) continue;
      ++told;
      EXPECT_EQ(*values, visited(form));
    }
    return told;
  }

 private:
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  Affine form_of(const std::vector<int>& iterators) {
    Affine form = constant_affine(below(3) - 1);
    for (int i : iterators) {
      int64_t factor = 1 + below(3) * below(2);
      Affine one = iterator_affine(static_cast<size_t>(i));
      for (int64_t n = 0; n < factor; ++n) form = below(2) == 0 || n > 0 ? form + one : form - one;
    }
    return form;
  }

  Interval visited(const Affine& form) const {
    Interval all;
    bool any = false;
    std::vector<int64_t> x(3);
    for (x[0] = part_[0].lo; x[0] <= part_[0].hi; ++x[0]) {
      for (x[1] = part_[1].lo; x[1] <= part_[1].hi; ++x[1]) {
        for (x[2] = part_[2].lo; x[2] <= part_[2].hi; ++x[2]) {
          bool valid = true;
          for (const Condition& c : system_.conditions) {
            int64_t value = c.form.evaluate(x).num();
            valid = valid && value >= c.lo && value < c.hi;
          }
          if (!valid) continue;
          int64_t value = form.evaluate(x).num();
          all = any ? Interval{std::min(all.lo, value), std::max(all.hi, value)}
                    : Interval{value, value};
          any = true;
        }
      }
    }
    return all;
  }

  std::mt19937_64 random_;
  System system_;
  Affine tied_;
  std::vector<Interval> box_, part_;
};

TEST(SimpleSystem, PartsHaveTheValuesThatTheirPointsHave) {
  int told = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    told += RandomParts(seed).check();
    if (HasFailure()) return;
  }
  EXPECT_GT(told, 2000);
}

TEST(SimpleSystem, PaddedWindowsAreSimple) {
  // 0 <= x + k - 1 < 8 with 0 <= x < 8 and 0 <= k < 3.
  System system{2, {access(form({1}), 8), access(form({0, 1}), 3), access(form({1, 1}, -1), 8)}};
  std::optional<SimpleSystem> simple = SimpleSystem::of(system, bounds(system));
  ASSERT_TRUE(simple);
  std::optional<SimpleSystem::Part> first = simple->part({{0, 0}, {0, 2}});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->of(form({0, 1})), (Interval{1, 2}));
  EXPECT_EQ(first->of(form({1, 1}, -1)), (Interval{0, 1}));
  // Of the cells that the second half stores at x + k - 1.
  std::optional<SimpleSystem::Part> half =
      simple->part({{0, 7}, {0, 2}}, {{form({1, 1}, -1), 4, 8, true}});
  ASSERT_TRUE(half);
  EXPECT_EQ(half->of(form({1})), (Interval{3, 7}));
}

TEST(SimpleSystem, OthersAreNot) {
  System twice{2,
               {access(form({1}), 8), access(form({0, 1}), 8), access(form({1, 1}), 6),
                access(form({1, -1}), 5)}};
  EXPECT_FALSE(SimpleSystem::of(twice, bounds(twice)));
  System fractions{1, {access(form({Rational(1, 3)}), 9)}};
  EXPECT_FALSE(SimpleSystem::of(fractions, bounds(fractions)));
  // 5y has gaps that are wider than 4 to 7: with which x some y gets there is not known.
  System gaps{2, {access(form({1}), 3), access(form({0, 1}), 3), {form({2, 5}), 4, 8, true}}};
  std::optional<SimpleSystem> simple = SimpleSystem::of(gaps, bounds(gaps));
  ASSERT_TRUE(simple);
  EXPECT_FALSE(simple->part({{0, 2}, {0, 1}}));
}

}  // namespace
}  // namespace tile::lattice
