// Expressions: builders, equality, text, evaluation, substitution, linear forms.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "core/simplify/expr.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

Expr var(const char* name) { return Expr::variable(name); }
const Expr x = var("x"), y = var("y"), z = var("z");

std::optional<int64_t> at(const Expr& e, int64_t xv, int64_t yv) {
  return evaluate(e, [&](std::string_view name) -> std::optional<int64_t> {
    if (name == "x") return xv;
    if (name == "y") return yv;
    return std::nullopt;
  });
}

TEST(Expr, BuildersFoldConstants) {
  EXPECT_EQ(Expr(2) + Expr(3), Expr(5));
  EXPECT_EQ(Expr(2) - Expr(3), Expr(-1));
  EXPECT_EQ(Expr(2) * Expr(300), Expr(600));
  EXPECT_EQ(trunc_div(Expr(-11), Expr(5)), Expr(-2));
  EXPECT_EQ(trunc_mod(Expr(-11), Expr(5)), Expr(-1));
  EXPECT_EQ(floor_div(Expr(-11), Expr(5)), Expr(-3));
  EXPECT_EQ(floor_mod(Expr(-11), Expr(5)), Expr(4));
  EXPECT_EQ(exact_div(Expr(6), Expr(3)), Expr(2));
  EXPECT_EQ(exact_div(Expr(1), Expr(2)).kind(), ExprKind::exact_div);
  EXPECT_EQ(min(Expr(2), Expr(3)), Expr(2));
  EXPECT_EQ(max(Expr(2), Expr(3)), Expr(3));
  EXPECT_EQ(less(Expr(2), Expr(3)), Expr(1));
  EXPECT_EQ(equal(Expr(2), Expr(3)), Expr(0));
  EXPECT_EQ(select(Expr(7), x, y), x);
  EXPECT_EQ(select(Expr(0), x, y), y);
}

TEST(Expr, BuildersDropNeutralElementsAndKeepTheRest) {
  EXPECT_EQ(x + 0, x);
  EXPECT_EQ(0 + x, x);
  EXPECT_EQ(x - 0, x);
  EXPECT_EQ(0 - x, -x);
  EXPECT_EQ(1 * x, x);
  EXPECT_EQ(x * 1, x);
  EXPECT_EQ(trunc_div(x, 1), x);
  EXPECT_EQ(floor_div(x, 1), x);
  EXPECT_EQ(exact_div(x, 1), x);
  // An index must not vanish from an access, where it would lose its bound.
  EXPECT_TRUE(uses_variable(0 * x, "x"));
  EXPECT_EQ(trunc_div(Expr(1), Expr(0)).kind(), ExprKind::trunc_div);
  EXPECT_EQ((x + y + z).args().size(), 3u);
  EXPECT_EQ((x + (y + z)).args().size(), 2u);
}

TEST(Expr, FoldsThatOverflowThrow) {
  EXPECT_THROW(Expr(kMax) + Expr(1), Overflow);
  EXPECT_THROW(Expr(kMin) - Expr(1), Overflow);
  EXPECT_THROW(Expr(kMax) * Expr(2), Overflow);
  EXPECT_THROW(-Expr(kMin), Overflow);
  EXPECT_THROW(trunc_div(Expr(kMin), Expr(-1)), Overflow);
  EXPECT_EQ(trunc_mod(Expr(kMin), Expr(-1)), Expr(0));
}

TEST(Expr, EqualityIsOfStructure) {
  EXPECT_EQ(x + 2 * y, var("x") + Expr(2) * var("y"));
  EXPECT_FALSE(x + y == y + x);
  EXPECT_FALSE(trunc_div(x, y) == floor_div(x, y));
  EXPECT_FALSE(Expr(1) == x);
  EXPECT_EQ(Expr(1000000), Expr(1000000));
}

TEST(Expr, TextHasMinimalParentheses) {
  EXPECT_EQ(to_string(x + 2 * y), "x + 2*y");
  EXPECT_EQ(to_string((x + 2) * y), "(x + 2)*y");
  EXPECT_EQ(to_string(x - y - z), "x - y - z");
  EXPECT_EQ(to_string(x - (y - z)), "x - (y - z)");
  EXPECT_EQ(to_string(x + (y + z)), "x + (y + z)");
  EXPECT_EQ(to_string(x - (y + z)), "x - (y + z)");
  EXPECT_EQ(to_string(trunc_div(x * y, z)), "x*y / z");
  EXPECT_EQ(to_string(x * trunc_div(y, z)), "x*(y / z)");
  EXPECT_EQ(to_string(exact_div(x, y)), "x / y");
  EXPECT_EQ(to_string(trunc_mod(x, y + 1)), "x % (y + 1)");
  EXPECT_EQ(to_string(floor_div(x, y + 1)), "floordiv(x, y + 1)");
  EXPECT_EQ(to_string(floor_mod(x, 4) + 1), "mod(x, 4) + 1");
  EXPECT_EQ(to_string(min(x, max(y, 0))), "min(x, max(y, 0))");
  EXPECT_EQ(to_string(select(less(x, y), x + 1, y)), "((x < y) ? x + 1 : y)");
  EXPECT_EQ(to_string(equal(x, y)), "(x == y)");
  EXPECT_EQ(to_string(-x + y), "-x + y");
  EXPECT_EQ(to_string(-(x + y)), "-(x + y)");
  EXPECT_EQ(to_string(x - Expr(-3)), "x - -3");
}

TEST(Expr, ParsesCText) {
  EXPECT_EQ(parse_expr("x + 2*y % 3"), x + trunc_mod(2 * y, 3));
  EXPECT_EQ(parse_expr("x/y/z"), trunc_div(trunc_div(x, y), z));
  EXPECT_EQ(parse_expr("x >= 0 ? x : -x"), select(less(0, x + 1), x, -x));
  EXPECT_EQ(parse_expr("x <= y"), less(x, y + 1));
  EXPECT_EQ(parse_expr("x > y"), less(y, x));
  EXPECT_EQ(parse_expr("IN.0 + min"), var("IN.0") + var("min"));
  EXPECT_EQ(parse_expr("-9223372036854775808"), Expr(kMin));
}

TEST(Expr, TextErrorsAreLocated) {
  auto code = [](std::string_view text) {
    try {
      parse_expr(text);
    } catch (const Failure& f) {
      return f.diagnostic().code + "@" + std::to_string(f.diagnostic().span.begin);
    }
    return std::string("none");
  };
  EXPECT_EQ(code("x +"), "syntax@3");
  EXPECT_EQ(code("x + )"), "syntax@4");
  EXPECT_EQ(code("(x"), "syntax@2");
  EXPECT_EQ(code("foo(x)"), "syntax@0");
  EXPECT_EQ(code("x # y"), "syntax@2");
  EXPECT_EQ(code("9223372036854775808"), "overflow@0");
  EXPECT_EQ(code("9223372036854775807 + 1"), "overflow@0");
  EXPECT_EQ(code(std::string(5000, '(')).substr(0, 5), "limit");
  EXPECT_EQ(code(std::string(5000, '-')).substr(0, 5), "limit");
  std::string sum = "x";
  for (int i = 0; i < 20000; ++i) sum += "-x";
  EXPECT_EQ(code(sum).substr(0, 5), "limit");
}

class Builder {
 public:
  explicit Builder(uint32_t seed) : random_(seed) {}
  int pick(int n) { return static_cast<int>(random_() % n); }

  Expr expr(int depth) {
    if (depth == 0 || pick(6) == 0) return leaf();
    Expr a = expr(depth - 1), b = expr(depth - 1);
    switch (pick(13)) {
      case 0:
        return a + b;
      case 1:
        return a - b;
      case 2:
        return a * b;
      case 3:
        return -a;
      case 4:
        return trunc_div(a, b);
      case 5:
        return trunc_mod(a, b);
      case 6:
        return floor_div(a, b);
      case 7:
        return floor_mod(a, b);
      case 8:
        return min(a, b);
      case 9:
        return max(a, b);
      case 10:
        return less(a, b);
      case 11:
        return equal(a, b);
      default:
        return select(a, b, expr(depth - 1));
    }
  }

 private:
  Expr leaf() {
    int n = pick(6);
    return n < 3 ? Expr(n - 1) : n == 3 ? x : n == 4 ? y : z;
  }
  std::mt19937 random_;
};

TEST(Expr, ParsingTheTextGivesTheSameTree) {
  Builder builder(1);
  int compound = 0;
  for (int i = 0; i < 20000; ++i) {
    Expr e = builder.expr(5);
    std::string text = to_string(e);
    ASSERT_EQ(parse_expr(text), e) << text;
    compound += e.args().size() > 1;
  }
  EXPECT_GT(compound, 8000);
}

TEST(Expr, EvaluatesChecked) {  // lift rule 3.1
  EXPECT_EQ(at(2 * x + trunc_div(y, 3), 5, -7), 8);
  EXPECT_EQ(at(floor_div(y, 3), 0, -7), -3);
  EXPECT_EQ(at(floor_mod(y, 3), 0, -7), 2);
  EXPECT_EQ(at(select(less(x, y), x, y), 4, 9), 4);
  EXPECT_EQ(at(trunc_div(x, y), 4, 0), std::nullopt);
  EXPECT_EQ(at(trunc_mod(x, y), 4, 0), std::nullopt);
  EXPECT_EQ(at(x + z, 4, 0), std::nullopt);
  EXPECT_EQ(at(exact_div(x, y), 6, 3), 2);
  EXPECT_EQ(at(exact_div(x, y), 7, 3), std::nullopt);
  // Only the chosen arm is evaluated.
  EXPECT_EQ(at(select(y, trunc_div(x, y), 9), 4, 0), 9);
  EXPECT_THROW(at(x * x, kMax, 0), Overflow);
  EXPECT_THROW(at(x + y, kMax, 1), Overflow);
  EXPECT_THROW(at(-x, kMin, 0), Overflow);
}

TEST(Expr, SubstitutionFoldsAndIsSimultaneous) {
  EXPECT_EQ(substitute(x + 2 * y, {{"x", Expr(3)}, {"y", Expr(4)}}), Expr(11));
  EXPECT_EQ(substitute(x - y, {{"x", y}, {"y", x}}), y - x);
  Expr e = x + 2 * y;
  EXPECT_EQ(substitute(e, {{"z", Expr(1)}}).node(), e.node());
  EXPECT_EQ(substitute(trunc_div(x, y), {{"y", Expr(0)}}), trunc_div(x, Expr(0)));
}

TEST(Expr, CollectsVariablesInOrderOfFirstUse) {
  std::vector<std::string> names;
  collect_variables(y * x + select(less(z, y), x, 1), names);
  EXPECT_EQ(names, (std::vector<std::string>{"y", "x", "z"}));
  Expr doubling = x;
  for (int i = 0; i < 60; ++i) doubling = trunc_div(doubling, doubling * y);
  names.clear();
  collect_variables(doubling, names);
  EXPECT_EQ(names, (std::vector<std::string>{"x", "y"}));
  EXPECT_FALSE(uses_variable(x + y, "z"));
}

TEST(Expr, LinearForms) {
  auto form = linear_form(3 * (x - 2 * y) + 7 - x * 2 + exact_div(4 * z + 2, 2));
  ASSERT_TRUE(form);
  EXPECT_EQ(form->constant, 8);
  EXPECT_EQ(form->terms, (std::map<std::string, int64_t>{{"x", 1}, {"y", -6}, {"z", 2}}));
  EXPECT_EQ(to_string(from_linear(*form)), "8 + x + 2*z - 6*y");
  EXPECT_EQ(linear_form(x - x)->terms.size(), 0u);
  EXPECT_FALSE(linear_form(x * y));
  EXPECT_FALSE(linear_form(trunc_div(2 * x, 2)));
  EXPECT_FALSE(linear_form(exact_div(x, 2)));
  EXPECT_FALSE(linear_form(Expr(kMax) * (2 * x)));
  EXPECT_EQ(from_linear({{{"x", -1}}, 0}), -x);
  EXPECT_EQ(to_string(from_linear({{{"x", kMin}, {"y", 1}}, 0})), "-9223372036854775808*x + y");
}

}  // namespace
}  // namespace tile
