#include "core/simplify/simplify.h"

#include <algorithm>
#include <limits>

#include "core/simplify/simplifier.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile::algebra {
namespace {

constexpr size_t kMaxTerms = 64;  // products that would have more stay products
constexpr int kMaxJoins = 64;

}  // namespace

Polynomial Simplifier::run(const Expr& e) {
  if (e.kind() == ExprKind::constant) return constant(e.value());
  if (e.kind() == ExprKind::variable) return variable(e);
  // Shared nodes are worked out once; those of leaves alone are cheaper than remembering them.
  bool remember = !std::all_of(e.args().begin(), e.args().end(),
                               [](const Expr& arg) { return arg.args().empty(); });
  if (remember) {
    auto found = done_.find(e.node());
    if (found != done_.end()) return found->second;
  }
  Nesting nesting(depth_);
  Polynomial p = tidy(run_operation(e));
  if (remember) done_.emplace(e.node(), p);
  return p;
}

Polynomial Simplifier::variable(const Expr& e) {
  const VariableInfo& info = variable_info(e.name());
  return info.fixed ? info.lo : atom(e);
}

Polynomial Simplifier::run_operation(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::add: {
      std::vector<Term> terms;
      for (const Expr& arg : e.args()) {
        Polynomial p = run(arg);
        std::move(p.terms.begin(), p.terms.end(), std::back_inserter(terms));
      }
      return sorted(std::move(terms));
    }
    case ExprKind::sub:
      return run(e.args()[0]) - run(e.args()[1]);
    case ExprKind::neg:
      return -run(e.args()[0]);
    case ExprKind::mul:
      return run_product(e);
    case ExprKind::min:
    case ExprKind::max: {
      std::vector<Polynomial> operands;
      for (const Expr& arg : e.args()) operands.push_back(run(arg));
      return extremum(e.kind(), operands);
    }
    case ExprKind::less:
      return less_than(run(e.args()[0]), run(e.args()[1]));
    case ExprKind::equal:
      return equal_to(run(e.args()[0]), run(e.args()[1]));
    case ExprKind::select:
      return selection(e);
    default:
      return divide(e.kind(), run(e.args()[0]), run(e.args()[1]));
  }
}

Polynomial Simplifier::run_product(const Expr& e) {
  Polynomial product = run(e.args()[0]);
  for (size_t i = 1; i < e.args().size(); ++i) {
    Polynomial factor = run(e.args()[i]);
    if (product.terms.size() > 1 && factor.terms.size() > 1 &&
        product.terms.size() * factor.terms.size() > kMaxTerms) {
      Expr a = to_expr(product), b = to_expr(factor);
      if (compare(a, b) > 0) std::swap(a, b);
      product = atom(Expr::make(ExprKind::mul, {a, b}));
    } else {
      product = product * factor;
    }
  }
  return product;
}

namespace {

// The operands of nested extrema of one kind.
void flatten(ExprKind kind, const Polynomial& p, std::vector<Polynomial>& operands) {
  bool nested = p.terms.size() == 1 && p.terms[0].coefficient == 1 &&
                p.terms[0].atoms.size() == 1 && p.terms[0].atoms[0].kind() == kind;
  if (!nested) {
    operands.push_back(p);
    return;
  }
  for (const Expr& arg : p.terms[0].atoms[0].args()) flatten(kind, expand(arg), operands);
}

}  // namespace

Polynomial Simplifier::extremum(ExprKind kind, const std::vector<Polynomial>& of) {
  std::vector<Polynomial> operands;
  for (const Polynomial& p : of) flatten(kind, p, operands);
  // An operand that another one never exceeds (min) or falls below (max) is redundant.
  for (size_t i = 0; i < operands.size(); ++i) {
    for (size_t j = 0; j < operands.size(); ++j) {
      if (i == j) continue;
      Polynomial gap = operands[i] - operands[j];
      if (!nonnegative(kind == ExprKind::min ? gap : -gap)) continue;
      operands.erase(operands.begin() + static_cast<ptrdiff_t>(i));
      --i;
      break;
    }
  }
  if (operands.size() == 1) return operands[0];
  std::vector<Expr> args;
  for (const Polynomial& p : operands) args.push_back(to_expr(p));
  std::sort(args.begin(), args.end(),
            [](const Expr& a, const Expr& b) { return compare(a, b) < 0; });
  Expr r = args[0];
  for (size_t i = 1; i < args.size(); ++i) r = Expr::make(kind, {r, args[i]});
  return atom(r);
}

// min(x, y) + rest = min(x + rest, y + rest) where that cancels as much as it adds; likewise
// rest - min(x, y) as a maximum. True if p changed.
bool Simplifier::push_into_extremum(Polynomial& p) {
  if (p.terms.size() < 2) return false;
  for (const Term& t : p.terms) {
    if (t.atoms.size() != 1 || (t.coefficient != 1 && t.coefficient != -1)) continue;
    ExprKind kind = t.atoms[0].kind();
    if (kind != ExprKind::min && kind != ExprKind::max) continue;
    Polynomial alone = atom(t.atoms[0]);
    Polynomial rest = t.coefficient > 0 ? p - alone : p + alone;
    std::vector<Polynomial> operands;
    flatten(kind, alone, operands);
    size_t before = 0, after = 0;
    for (Polynomial& x : operands) {
      before += x.terms.size();
      x = t.coefficient > 0 ? x + rest : rest - x;
      after += x.terms.size();
    }
    if (after > before) continue;
    if (t.coefficient < 0) kind = kind == ExprKind::min ? ExprKind::max : ExprKind::min;
    p = extremum(kind, operands);
    return true;
  }
  return false;
}

Polynomial Simplifier::tidy(Polynomial p) {
  for (int i = 0; i < kMaxJoins; ++i) {
    if (!join_quotients(p) && !push_into_extremum(p)) break;
  }
  return p;
}

namespace {

// The positive and the negated negative terms.
std::pair<Polynomial, Polynomial> by_sign(const Polynomial& p) {
  std::pair<Polynomial, Polynomial> r;
  for (const Term& t : p.terms) {
    if (t.coefficient > 0) {
      r.first.terms.push_back(t);
    } else {
      r.second.terms.push_back({checked_neg(t.coefficient), t.atoms});
    }
  }
  return r;
}

// A comparison alone, with coefficient 1 or -1, and a constant.
const Term* boolean_term(const Polynomial& p) {
  const Term* found = nullptr;
  for (const Term& t : p.terms) {
    if (t.atoms.empty()) continue;
    if (found != nullptr || t.atoms.size() != 1 || !is_boolean(t.atoms[0])) return nullptr;
    if (t.coefficient != 1 && t.coefficient != -1) return nullptr;
    found = &t;
  }
  return found;
}

// (p with its coefficients but the constant divided by their common divisor, the divisor).
std::pair<Polynomial, int64_t> primitive(const Polynomial& p) {
  Polynomial varying = without_constant(p);
  int64_t g = content(varying);
  for (Term& t : varying.terms) t.coefficient /= g;
  return {std::move(varying), g};
}

}  // namespace

// a < b as b - a > 0.
Polynomial Simplifier::less_than(const Polynomial& a, const Polynomial& b) {
  Polynomial gap = b - a;
  if (auto c = gap.constant()) return constant(*c > 0);
  Interval range = interval(gap);
  if (range.lo > 0) return constant(1);
  if (range.hi <= 0) return {};
  if (!facts_.empty() || !exact_interval(gap)) {
    if (positive(gap)) return constant(1);
    if (nonnegative(-gap)) return {};
  }
  auto [varying, g] = primitive(gap);
  int64_t offset = ceil_div(gap.constant_term(), g);
  if (const Term* b01 = boolean_term(varying)) {
    // Undecided, so b > 0 or 1 - b > 0.
    return b01->coefficient > 0 ? varying : constant(1) + varying;
  }
  auto [right, left] = by_sign(varying + constant(offset));
  return atom(Expr::make(ExprKind::less, {to_expr(left), to_expr(right)}));
}

Polynomial Simplifier::equal_to(const Polynomial& a, const Polynomial& b) {
  Polynomial gap = b - a;
  if (auto c = gap.constant()) return constant(*c == 0);
  if (positive(gap) || positive(-gap)) return {};
  auto [varying, g] = primitive(gap);
  if (gap.constant_term() % g != 0) return {};
  int64_t offset = gap.constant_term() / g;
  if (varying.terms[0].coefficient < 0) {
    varying = -varying;
    offset = checked_neg(offset);
  }
  if (boolean_term(varying) != nullptr) return offset == 0 ? constant(1) - varying : varying;
  auto [left, right] = by_sign(varying + constant(offset));
  return atom(Expr::make(ExprKind::equal, {to_expr(left), to_expr(right)}));
}

namespace {

bool of_variables(const Polynomial& p) {
  return std::all_of(p.terms.begin(), p.terms.end(), [](const Term& t) {
    return std::all_of(t.atoms.begin(), t.atoms.end(),
                       [](const Expr& e) { return e.kind() == ExprKind::variable; });
  });
}

Condition read_condition(const Polynomial& p) {
  Condition c;
  const Term* term = boolean_term(p);
  if (term == nullptr) return c;
  c.negated = p.constant_term() == -term->coefficient;
  if (p.constant_term() != 0 && !c.negated) return c;
  c.comparison = term->atoms[0];
  Polynomial gap = expand(c.comparison->args()[1]) - expand(c.comparison->args()[0]);
  if (c.comparison->kind() == ExprKind::equal) {
    c.if_true = {gap, -gap};
  } else {
    c.if_true = {gap - constant(1)};
    c.if_false = {-gap};
    c.gap = std::move(gap);
  }
  return c;
}

}  // namespace

// Whether (x < y ? a : b) is the minimum or maximum of its arms. The other arm is then evaluated
// too, so it must have a value wherever this one has.
std::optional<ExprKind> Simplifier::chosen_extremum(const Condition& c, const Polynomial& a,
                                                    const Polynomial& b) {
  if (c.gap.is_zero()) return std::nullopt;
  Polynomial rise = b - a;
  // The arms differ by the compared values, which are evaluated anyway.
  if (rise == c.gap || rise == c.gap - constant(1)) return ExprKind::min;
  if (-rise == c.gap || -rise == c.gap - constant(1)) return ExprKind::max;
  if (!of_variables(a) || !of_variables(b)) return std::nullopt;
  if (nonnegative_given(rise, c.if_true) && nonnegative_given(-rise, c.if_false)) {
    return ExprKind::min;
  }
  if (nonnegative_given(-rise, c.if_true) && nonnegative_given(rise, c.if_false)) {
    return ExprKind::max;
  }
  return std::nullopt;
}

Polynomial Simplifier::selection(const Expr& e) {
  Polynomial condition = run(e.args()[0]);
  if (auto c = condition.constant()) return run(e.args()[*c != 0 ? 1 : 2]);
  if (positive(condition) || positive(-condition)) return run(e.args()[1]);
  Condition c = read_condition(condition);
  Polynomial a = run_assuming(e.args()[c.negated ? 2 : 1], c.if_true);
  Polynomial b = run_assuming(e.args()[c.negated ? 1 : 2], c.if_false);
  if (a == b) return a;
  if (c.comparison) {
    condition = atom(*c.comparison);
    if (a.constant() == 1 && b.is_zero()) return condition;
    if (a.is_zero() && b.constant() == 1) return constant(1) - condition;
  }
  if (auto kind = chosen_extremum(c, a, b)) return extremum(*kind, {a, b});
  return atom(Expr::make(ExprKind::select, {to_expr(condition), to_expr(a), to_expr(b)}));
}

}  // namespace tile::algebra

namespace tile {
namespace {

constexpr int kMaxRounds = 8;

// Sums of numbers times variables, where no variable is fixed by its range.
std::optional<Expr> simplify_linear(const Expr& e, const Ranges& ranges) {
  if (e.kind() != ExprKind::add && e.kind() != ExprKind::sub && e.kind() != ExprKind::mul &&
      e.kind() != ExprKind::neg) {
    return std::nullopt;
  }
  auto form = linear_form(e);
  if (!form) return std::nullopt;
  for (const auto& [name, c] : form->terms) {
    auto range = ranges.of.find(name);
    if (range == ranges.of.end() || !range->second.lo || !range->second.hi) continue;
    const Expr& lo = *range->second.lo;
    const Expr& hi = *range->second.hi;
    if (!lo.is_constant() || !hi.is_constant() || lo.value() == hi.value()) return std::nullopt;
  }
  return from_linear(*form);
}

}  // namespace

Expr simplify(const Expr& e, const Ranges& ranges) {
  if (e.is_constant()) return e;
  if (auto linear = simplify_linear(e, ranges)) return *linear;
  try {
    Expr before = e;
    algebra::Simplifier simplifier(ranges);
    for (int round = 0; round < kMaxRounds; ++round) {
      simplifier.restart();
      Expr after = to_expr(simplifier.run(before));
      if (after == before) return after;
      before = after;
    }
    // Rules that undo each other: any fixed choice keeps simplify idempotent.
    return e;
  } catch (const Overflow&) {
    return e;
  } catch (const algebra::TooDeep&) {
    return e;
  }
}

ConstantRange constant_range(const Expr& e, const Ranges& ranges) {
  ConstantRange r;
  if (e.is_constant()) return {e.value(), e.value()};
  try {
    algebra::Simplifier simplifier(ranges);
    algebra::Polynomial p = simplifier.run(e);
    algebra::Interval range = simplifier.interval(p);
    algebra::Wide lo = std::max(range.lo, simplifier.lower_bound(p, algebra::kInfinity));
    algebra::Wide hi = std::min(range.hi, -simplifier.lower_bound(-p, algebra::kInfinity));
    if (lo >= std::numeric_limits<int64_t>::min()) r.lo = static_cast<int64_t>(lo);
    if (hi <= std::numeric_limits<int64_t>::max()) r.hi = static_cast<int64_t>(hi);
  } catch (const Overflow&) {
  } catch (const algebra::TooDeep&) {
  }
  return r;
}

std::optional<bool> prove_less(const Expr& a, const Expr& b, const Ranges& ranges) {
  try {
    algebra::Simplifier simplifier(ranges);
    algebra::Polynomial gap = simplifier.run(b) - simplifier.run(a);
    if (simplifier.positive(gap)) return true;
    if (simplifier.nonnegative(-gap)) return false;
  } catch (const Overflow&) {
  } catch (const algebra::TooDeep&) {
  }
  return std::nullopt;
}

std::optional<bool> prove_equal(const Expr& a, const Expr& b, const Ranges& ranges) {
  try {
    algebra::Simplifier simplifier(ranges);
    algebra::Polynomial gap = simplifier.run(a) - simplifier.run(b);
    if (auto c = gap.constant()) return *c == 0;
    if (simplifier.positive(gap) || simplifier.positive(-gap)) return false;
    if (simplifier.nonnegative(gap) && simplifier.nonnegative(-gap)) return true;
  } catch (const Overflow&) {
  } catch (const algebra::TooDeep&) {
  }
  return std::nullopt;
}

}  // namespace tile
