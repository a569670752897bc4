// lift rule 3.2: on random expressions and random assignments inside the
// ranges, sizes of one included, simplifying keeps the value; simplify is idempotent; proofs and
// bounds hold. TILE_TEST_SEED and TILE_TEST_ROUNDS in the environment vary and lengthen the run.
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <random>

#include "core/simplify/simplify.h"
#include "core/support/checked.h"

namespace tile {
namespace {

uint32_t setting(const char* name, uint32_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : static_cast<uint32_t>(std::strtoul(value, nullptr, 10));
}

Expr var(const char* name) { return Expr::variable(name); }

class Generator {
 public:
  explicit Generator(uint32_t seed) : random_(seed) {}

  int pick(int count) { return static_cast<int>(random_() % static_cast<uint32_t>(count)); }
  int64_t between(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random_() % static_cast<uint64_t>(hi - lo + 1));
  }

  // Ranges of every kind.
  Ranges ranges() {
    Ranges r;
    for (const char* size : {"N", "M", "T"}) {
      int64_t least = pick(3) == 0 ? between(2, 4) : 1;
      r.of[size].lo = Expr(least);
      if (pick(4) == 0) r.of[size].hi = Expr(least + pick(8));
    }
    r.set("i", 0, var("N") - 1);
    r.set("j", pick(2), pick(2) ? var("M") - 1 : var("M") + 1);
    r.set("t", 0, (pick(2) ? floor_div(var("N"), var("T")) : trunc_div(var("N"), var("T"))) - 1);
    r.set("k", 0, pick(2) ? var("T") - 1 : Expr(between(0, 7)));
    int64_t low = between(-9, 5);
    r.set("p", low, low + pick(9));
    r.set("q", -var("M"), min(var("N"), var("j") + 2));
    if (pick(2)) r.of["u"].lo = Expr(0);
    if (pick(20) == 0) r.set("w", 1, -1);  // no values at all
    return r;
  }

  Expr size() {
    const char* sizes[] = {"N", "M", "T"};
    return var(sizes[pick(3)]);
  }
  Expr divisor() {
    switch (pick(8)) {
      case 0:
        return size();
      case 1:
        return size() + pick(3);
      case 2:
        return size() * (1 + pick(3));
      case 3:
        return size() * size();
      case 4:
        return var("p");
      default:
        return between(1, 3) << pick(3);
    }
  }
  Expr leaf() {
    if (extreme && pick(3) == 0) {
      int64_t top = std::numeric_limits<int64_t>::max() >> pick(3);
      return pick(2) ? top - pick(3) : -top - pick(2);
    }
    if (pick(4) == 0) return between(-5, 9);
    return var(order[static_cast<size_t>(pick(static_cast<int>(order.size())))].c_str());
  }
  // Sums of products, as addresses are.
  Expr affine() {
    Expr sum = pick(2) ? Expr(between(-20, 40)) : Expr(0);
    for (int n = 1 + pick(4); n > 0; --n) {
      Expr term = leaf();
      if (pick(3) == 0) term = term * size();
      if (pick(2)) term = between(-6, 16) * term;
      sum = pick(5) ? sum + term : sum - term;
    }
    return sum;
  }
  Expr expr(int depth) {
    if (depth == 0) return pick(2) ? leaf() : affine();
    auto sub = [&] { return expr(pick(depth)); };
    switch (pick(16)) {
      case 0:
        return sub() + sub();
      case 1:
        return sub() - sub();
      case 2:
        return sub() * sub();
      case 3:
        return -sub();
      case 4:
        return trunc_div(sub(), divisor());
      case 5:
        return trunc_mod(sub(), divisor());
      case 6:
        return floor_div(sub(), divisor());
      case 7:
        return floor_mod(sub(), divisor());
      case 8:
        return min(sub(), sub());
      case 9:
        return max(sub(), sub());
      case 10:
        return less(sub(), sub());
      case 11:
        return equal(sub(), sub());
      case 12:
        return select(less(sub(), sub()), sub(), sub());
      case 13:
        return select(sub(), sub(), sub());
      case 14:
        return recombined(sub(), divisor());
      default:
        return clamped(sub());
    }
  }
  Expr recombined(const Expr& e, const Expr& by) {
    Expr other = pick(3) ? e : expr(1);
    switch (pick(4)) {
      case 0:
        return trunc_div(e, by) * by + trunc_mod(other, by);
      case 1:
        return floor_mod(other, by) + by * floor_div(e, by);
      case 2:
        return exact_div(e, by) * by;
      default:
        return floor_div(e * by + other, by);
    }
  }
  // Operands of an extremum that share terms with what is added.
  Expr shifted(const Expr& e, const Expr& other, const Expr& by) {
    Expr extremum = pick(2) ? min(e + by, other) : max(e - by, other + by);
    return pick(2) ? by - extremum : extremum - by;
  }
  Expr clamped(const Expr& e) {
    Expr top = pick(2) ? size() - 1 : Expr(between(0, 9));
    return pick(2) ? min(max(e, 0), top) : select(less(e, 0), 0, select(less(top, e), top, e));
  }

  // Values inside the ranges; nullopt where a range is empty.
  std::optional<std::map<std::string, int64_t>> assignment(const Ranges& r) {
    std::map<std::string, int64_t> values;
    auto environment = [&](std::string_view name) -> std::optional<int64_t> {
      return values.at(std::string(name));
    };
    for (const std::string& name : order) {
      auto at = r.of.find(name);
      int64_t lo = -12, hi = 12;
      bool from_lo = at != r.of.end() && at->second.lo.has_value();
      bool to_hi = at != r.of.end() && at->second.hi.has_value();
      if (from_lo) lo = *evaluate(*at->second.lo, environment);
      if (to_hi) hi = *evaluate(*at->second.hi, environment);
      if (from_lo && !to_hi) hi = lo + (pick(3) == 0 ? 40 : 5);
      if (lo > hi) return std::nullopt;
      // Ends are where rules break.
      int where = pick(4);
      values[name] = where == 0 ? lo : where == 1 ? hi : between(lo, hi);
    }
    return values;
  }

  bool extreme = false;  // constants at the ends of 64 bits
  // The variables, those of bounds before those that they bound.
  std::vector<std::string> order{"N", "M", "T", "i", "j", "t", "k", "p", "q", "u", "w"};

 private:
  std::mt19937 random_;
};

std::optional<int64_t> value_of(const Expr& e, const std::map<std::string, int64_t>& values) {
  try {
    return evaluate(e, [&](std::string_view name) -> std::optional<int64_t> {
      return values.at(std::string(name));
    });
  } catch (const Overflow&) {
    return std::nullopt;
  }
}

std::string describe(const Expr& e, const Ranges& r, const std::map<std::string, int64_t>& values) {
  std::string text = to_string(e) + "\n where";
  for (const auto& [name, v] : values) {
    text += " " + name + "=" + std::to_string(v);
    auto at = r.of.find(name);
    if (at == r.of.end()) continue;
    text += " in [" + (at->second.lo ? to_string(*at->second.lo) : "") + ", " +
            (at->second.hi ? to_string(*at->second.hi) : "") + "]";
  }
  return text;
}

constexpr int kAssignments = 24;

TEST(SimplifyProperties, ValuesAreKeptAndSimplifyIsIdempotent) {
  Generator generate(setting("TILE_TEST_SEED", 1));
  uint32_t rounds = setting("TILE_TEST_ROUNDS", 9000);
  int compared = 0, of_size_one = 0, changed = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    Ranges r = generate.ranges();
    Expr e = generate.expr(1 + generate.pick(4));
    Expr s = simplify(e, r);
    changed += !(s == e);
    ASSERT_EQ(simplify(s, r), s) << describe(e, r, {}) << "\n gives " << to_string(s);
    for (int n = 0; n < kAssignments; ++n) {
      auto values = generate.assignment(r);
      if (!values) continue;
      auto before = value_of(e, *values);
      if (!before) continue;
      ASSERT_EQ(value_of(s, *values), before)
          << describe(e, r, *values) << "\n gives " << to_string(s);
      ++compared;
      of_size_one += values->at("N") == 1 || values->at("M") == 1;
    }
  }
  EXPECT_GE(compared, static_cast<int>(rounds) * 100 / 9);
  EXPECT_GE(of_size_one, compared / 10);
  EXPECT_GE(changed, static_cast<int>(rounds) / 2);
}

TEST(SimplifyProperties, ProofsAndBoundsHold) {
  Generator generate(setting("TILE_TEST_SEED", 1) + 7919);
  uint32_t rounds = setting("TILE_TEST_ROUNDS", 9000) / 3;
  int proved = 0, bounded = 0;
  for (uint32_t round = 0; round < rounds; ++round) {
    Ranges r = generate.ranges();
    Expr a = generate.expr(generate.pick(3)), b = generate.expr(generate.pick(3));
    std::optional<bool> is_less = prove_less(a, b, r), is_equal = prove_equal(a, b, r);
    ConstantRange range = constant_range(a, r);
    proved += is_less.has_value() + is_equal.has_value();
    bounded += range.lo.has_value() + range.hi.has_value();
    for (int n = 0; n < kAssignments; ++n) {
      auto values = generate.assignment(r);
      if (!values) continue;
      auto x = value_of(a, *values), y = value_of(b, *values);
      if (!x || !y) continue;
      std::string text = describe(a, r, *values) + "\n and " + to_string(b);
      if (is_less) {
        ASSERT_EQ(*x < *y, *is_less) << text;
      }
      if (is_equal) {
        ASSERT_EQ(*x == *y, *is_equal) << text;
      }
      if (range.lo) {
        ASSERT_GE(*x, *range.lo) << text;
      }
      if (range.hi) {
        ASSERT_LE(*x, *range.hi) << text;
      }
    }
  }
  EXPECT_GT(proved, static_cast<int>(rounds) / 4);
  EXPECT_GT(bounded, static_cast<int>(rounds) / 4);
}

// Near the ends of 64 bits nothing is thrown, and values that both forms have agree; sums in
// another order may overflow on the way.
TEST(SimplifyProperties, ExtremeConstants) {
  Generator generate(setting("TILE_TEST_SEED", 1) + 15485863);
  generate.extreme = true;
  int compared = 0;
  for (int round = 0; round < 4000; ++round) {
    Ranges r = generate.ranges();
    Expr e = 0;
    try {
      e = generate.expr(1 + generate.pick(3));
    } catch (const Overflow&) {
      continue;
    }
    Expr s = simplify(e, r);
    ASSERT_EQ(simplify(s, r), s) << describe(e, r, {});
    ConstantRange range = constant_range(e, r);
    for (int n = 0; n < kAssignments; ++n) {
      auto values = generate.assignment(r);
      if (!values) continue;
      auto before = value_of(e, *values), after = value_of(s, *values);
      if (!before) continue;
      EXPECT_GE(*before, range.lo.value_or(*before));
      EXPECT_LE(*before, range.hi.value_or(*before));
      if (!after) continue;
      ASSERT_EQ(before, after) << describe(e, r, *values) << "\n gives " << to_string(s);
      ++compared;
    }
  }
  EXPECT_GT(compared, 10000);
}

// Numbers in place of symbols: the same code, decided completely.
TEST(SimplifyProperties, ConstantsFoldCompletely) {
  Generator generate(setting("TILE_TEST_SEED", 1) + 104729);
  int folded = 0;
  for (int round = 0; round < 3000; ++round) {
    Ranges r = generate.ranges();
    Expr e = generate.expr(3);
    auto values = generate.assignment(r);
    if (!values) continue;
    auto expected = value_of(e, *values);
    if (!expected) continue;
    Ranges fixed;
    for (const auto& [name, v] : *values) fixed.set(name, v, v);
    Expr s = simplify(e, fixed);
    if (s == e && !s.is_constant()) continue;
    ASSERT_EQ(s, Expr(*expected)) << describe(e, r, *values);
    ++folded;
  }
  EXPECT_GT(folded, 1000);
}

// Linear forms take a short cut, which agrees with the general way.
TEST(SimplifyProperties, TheLinearShortCutAgrees) {
  Generator generate(setting("TILE_TEST_SEED", 1) + 1299709);
  int linear = 0;
  for (int round = 0; round < 3000; ++round) {
    Expr e = generate.leaf();
    for (int n = generate.pick(6); n >= 0; --n) {
      Expr term = generate.between(-4, 4) * generate.leaf();
      e = generate.pick(2) ? e + term : generate.pick(3) - (e - term);
    }
    if (!linear_form(e)) continue;
    Expr hidden = trunc_div(e, 2) * 2 + trunc_mod(e, 2);
    ASSERT_EQ(simplify(hidden, {}), simplify(e, {})) << to_string(e);
    ++linear;
  }
  EXPECT_GT(linear, 1000);
}

}  // namespace
}  // namespace tile
