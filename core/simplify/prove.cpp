// Lower bounds of polynomials whose atoms have symbolic bounds: atoms are eliminated one by one,
// those whose bounds depend on others first, by putting in the bound that is worst for the sign of
// their coefficient.
#include <algorithm>

#include "core/simplify/simplifier.h"
#include "core/support/checked.h"

namespace tile::algebra {
namespace {

constexpr int kBudget = 120;  // eliminations in one proof

// p = rest + s * factor.
struct Split {
  Polynomial rest, factor;
  bool linear = true;
};
Split split(const Polynomial& p, const Expr& s) {
  Split r;
  for (const Term& term : p.terms) {
    auto other = quotient_monomial(term.atoms, {s});
    if (!other) {
      r.rest.terms.push_back(term);
      continue;
    }
    for (const Expr& a : *other) r.linear = r.linear && compare(a, s) != 0;
    r.factor.terms.push_back({term.coefficient, std::move(*other)});
  }
  r.factor = sorted(std::move(r.factor.terms));
  return r;
}

Wide ceil_quotient(Wide a, Wide b) {
  if (a <= -kInfinity || a >= kInfinity) return a;
  Wide q = a / b;
  return a % b != 0 && a > 0 ? q + 1 : q;
}

}  // namespace

namespace {

// The k > 0 for which p - k * fact loses a term that varies; 1 if there is none.
int64_t multiple_of(const Polynomial& fact, const Polynomial& p) {
  for (const Term& t : fact.terms) {
    if (t.atoms.empty()) continue;
    const Term* same = find_term(p, t.atoms);
    if (same == nullptr || trunc_mod(same->coefficient, t.coefficient) != 0) continue;
    int64_t k = trunc_div(same->coefficient, t.coefficient);
    if (k > 0) return k;
  }
  return 1;
}

}  // namespace

bool Simplifier::nonnegative(const Polynomial& p) {
  if (auto c = p.constant()) return *c >= 0;
  if (lower_bound(p, 0) >= 0) return true;
  for (size_t i = 0; i < facts_.size(); ++i) {
    try {
      Polynomial rest = p - scale(facts_[i], multiple_of(facts_[i], p));
      if (lower_bound(rest, 0) >= 0) return true;
    } catch (const Overflow&) {
    }
  }
  return false;
}

bool Simplifier::nonnegative_given(const Polynomial& p, const std::vector<Polynomial>& facts) {
  size_t outer = facts_.size();
  facts_.insert(facts_.end(), facts.begin(), facts.end());
  bool proved = nonnegative(p);
  facts_.erase(facts_.begin() + static_cast<ptrdiff_t>(outer), facts_.end());
  return proved;
}

bool Simplifier::positive(const Polynomial& p) {
  try {
    return nonnegative(p - constant(1));
  } catch (const Overflow&) {
    return false;
  }
}

Wide Simplifier::lower_bound(const Polynomial& p, Wide target) {
  int outer = budget_;
  budget_ = kBudget;
  Wide bound = -kInfinity;
  try {
    bound = search(p, target);
  } catch (const Overflow&) {
  } catch (const TooDeep&) {
  }
  budget_ = outer;
  return bound;
}

// Whether interval arithmetic has no slack: a sum of independent variables with numeric bounds.
bool Simplifier::exact_interval(const Polynomial& p) {
  for (const Term& term : p.terms) {
    if (term.atoms.empty()) continue;
    if (term.atoms.size() > 1 || term.atoms[0].kind() != ExprKind::variable) return false;
    const VariableInfo& v = variable_info(term.atoms[0].name());
    if (v.has_lo && !v.lo.constant()) return false;
    if (v.has_hi && !v.hi.constant()) return false;
  }
  return true;
}

Wide Simplifier::search(const Polynomial& p, Wide target) {
  Interval range = interval(p);
  if (range.lo >= target || (range.hi < target && target < kInfinity)) return range.lo;
  if (exact_interval(p) || --budget_ < 0) return range.lo;
  if (target < kInfinity && refuted(p, target)) return range.lo;
  Nesting nesting(depth_);
  const Expr* highest = nullptr;
  for (const Term& term : p.terms) {
    for (const Expr& a : term.atoms) {
      if (highest == nullptr || rank(a) > rank(*highest)) highest = &a;
    }
  }
  return std::max(range.lo, eliminate(p, *highest, target));
}

int Simplifier::sign(const Polynomial& p) {
  if (auto c = p.constant()) return (*c > 0) - (*c < 0);
  if (search(p, 0) >= 0) return 1;
  return search(-p, 0) >= 0 ? -1 : 0;
}

Wide Simplifier::eliminate(const Polynomial& p, const Expr& s, Wide target) {
  auto [rest, factor, linear] = split(p, s);
  Wide best = -kInfinity;
  auto with = [&, &rest = rest, &factor = factor](const Polynomial& value) {
    return search(rest + factor * value, target);
  };
  SymbolBounds bounds = bounds_of(s, rest);
  if (linear && !bounds.cases.empty()) {
    Wide worst = kInfinity;
    for (const Polynomial& value : bounds.cases) {
      worst = std::min(worst, with(value));
      if (worst <= -kInfinity) break;
    }
    best = worst;
    if (best >= target) return best;
  }
  int direction = sign(factor);
  const auto& useful = direction > 0 ? bounds.lows : bounds.highs;
  if (direction != 0) {
    for (const Polynomial& value : useful) {
      best = std::max(best, with(value));
      if (best >= target) return best;
    }
  } else if (linear && !bounds.lows.empty() && !bounds.highs.empty()) {
    // A linear function is least at an end.
    best = std::max(best, std::min(with(bounds.lows[0]), with(bounds.highs[0])));
  }
  if (best >= target) return best;
  return std::max(best, eliminate_quotient(rest, factor, s, target));
}

// The bound of rest + s * factor for a quotient s, from its dividend.
Wide Simplifier::eliminate_quotient(const Polynomial& rest, const Polynomial& factor, const Expr& s,
                                    Wide target) {
  auto scaled = scaled_bounds_of(s);
  if (!scaled) return -kInfinity;
  if (auto k = exact_quotient(factor, scaled->divisor)) {
    int k_sign = sign(*k);
    if (k_sign == 0) return -kInfinity;
    return search(rest + *k * (k_sign > 0 ? scaled->low : scaled->high), target);
  }
  auto d = scaled->divisor.constant();
  int direction = sign(factor);
  if (!d || direction == 0) return -kInfinity;
  // p >= t follows from d * p >= d * (t - 1) + 1, p being an integer.
  Polynomial multiple =
      tile::algebra::scale(rest, *d) + factor * (direction > 0 ? scaled->low : scaled->high);
  Wide multiple_target = target < kInfinity ? *d * (target - 1) + 1 : target;
  return ceil_quotient(search(multiple, multiple_target), *d);
}

Simplifier::SymbolBounds Simplifier::bounds_of(const Expr& s, const Polynomial& others) {
  SymbolBounds b;
  if (s.kind() == ExprKind::variable) {
    const VariableInfo& v = variable_info(s.name());
    if (v.has_lo) b.lows.push_back(v.lo);
    if (v.has_hi) b.highs.push_back(v.hi);
    return b;
  }
  const AtomInfo& info = atom_info(s);
  const std::vector<Polynomial>& args = info.args;
  if (info.range.lo > -kInfinity) b.lows.push_back(constant(static_cast<int64_t>(info.range.lo)));
  if (info.range.hi < kInfinity) b.highs.push_back(constant(static_cast<int64_t>(info.range.hi)));
  switch (s.kind()) {
    case ExprKind::min:
      b.highs.insert(b.highs.end(), args.begin(), args.end());
      b.cases = args;
      break;
    case ExprKind::max:
      b.lows.insert(b.lows.end(), args.begin(), args.end());
      b.cases = args;
      break;
    case ExprKind::select:
      b.cases = {args[1], args[2]};
      break;
    default:
      bound_division(s.kind(), args[0], args[1], !others.is_zero(), b);
      break;
  }
  return b;
}

// Bounds by the operands of x / d and x % d beyond the numeric ones; x itself bounds them from
// above if x >= 0, which helps only `beside` other terms.
void Simplifier::bound_division(ExprKind kind, const Polynomial& x, const Polynomial& d,
                                bool beside, SymbolBounds& b) {
  bool modulo = kind == ExprKind::floor_mod || kind == ExprKind::trunc_mod;
  if (!modulo && kind != ExprKind::floor_div) return;
  Polynomial most = d - constant(1);
  if (d.constant() ? *d.constant() <= 0 : sign(most) <= 0) return;
  if (beside && sign(x) > 0) b.highs.push_back(x);
  if (!modulo || d.constant()) return;
  b.lows.push_back(kind == ExprKind::floor_mod ? Polynomial{} : -most);
  b.highs.push_back(std::move(most));
}

std::optional<Simplifier::ScaledBounds> Simplifier::scaled_bounds_of(const Expr& s) {
  ExprKind kind = s.kind();
  if (kind != ExprKind::floor_div && kind != ExprKind::trunc_div && kind != ExprKind::exact_div) {
    return std::nullopt;
  }
  const std::vector<Polynomial>& args = atom_info(s).args;
  const Polynomial& x = args[0];
  const Polynomial& d = args[1];
  if (d.constant() ? *d.constant() <= 0 : sign(d - constant(1)) <= 0) return std::nullopt;
  Polynomial slack = kind == ExprKind::exact_div ? Polynomial{} : d - constant(1);
  return ScaledBounds{d, x - slack, kind == ExprKind::trunc_div ? x + slack : x};
}

}  // namespace tile::algebra
