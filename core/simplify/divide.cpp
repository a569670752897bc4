// Quotients and remainders. Divisors are not zero where an expression has a value, so a rewrite may
// use that; everything else is proved.
#include <algorithm>

#include "core/simplify/simplifier.h"
#include "core/support/checked.h"

namespace tile::algebra {
namespace {

bool is_modulo(ExprKind kind) { return kind == ExprKind::trunc_mod || kind == ExprKind::floor_mod; }

Polynomial operation(ExprKind kind, const Polynomial& a, const Polynomial& b) {
  return atom(Expr::make(kind, {to_expr(a), to_expr(b)}));
}

// The single atom of this kind that p consists of.
const Expr* only_atom(const Polynomial& p, ExprKind kind) {
  if (p.terms.size() != 1 || p.terms[0].coefficient != 1 || p.terms[0].atoms.size() != 1 ||
      p.terms[0].atoms[0].kind() != kind) {
    return nullptr;
  }
  return &p.terms[0].atoms[0];
}

Polynomial monomial(int64_t coefficient, std::vector<Expr> atoms) {
  Polynomial p;
  if (coefficient != 0) p.terms.push_back({coefficient, std::move(atoms)});
  return p;
}

// a = b * quotient + remainder for a number b, with the remainder's constant in [0, b).
Quotient divide_by_number(const Polynomial& a, int64_t b) {
  Quotient r;
  for (const Term& t : a.terms) {
    int64_t q = t.atoms.empty() ? floor_div(t.coefficient, b) : trunc_div(t.coefficient, b);
    int64_t left = checked_sub(t.coefficient, checked_mul(q, b));
    if (q != 0) r.quotient.terms.push_back({q, t.atoms});
    if (left != 0) r.remainder.terms.push_back({left, t.atoms});
  }
  return r;
}

}  // namespace

Polynomial Simplifier::divide(ExprKind kind, const Polynomial& a, const Polynomial& b) {
  if (b.is_zero()) return operation(kind, a, b);
  bool modulo = is_modulo(kind);
  if (auto q = exact_quotient(a, b)) return modulo ? Polynomial{} : *q;
  // Empty ranges prove both signs: only one is asked for, so that signs flip at most once.
  bool is_positive = b.constant() ? *b.constant() > 0 : positive(b);
  if (!is_positive && (b.constant() || positive(-b))) {
    switch (kind) {
      case ExprKind::exact_div:
      case ExprKind::trunc_div:
        return -divide(kind, a, -b);
      case ExprKind::trunc_mod:
        return divide(kind, a, -b);
      case ExprKind::floor_div:
        return divide(kind, -a, -b);
      default:
        return -divide(kind, -a, -b);
    }
  }
  if (kind == ExprKind::exact_div) return divide_exactly(a, b);
  bool down = kind == ExprKind::floor_div || kind == ExprKind::floor_mod;
  if (is_positive && (down || nonnegative(a))) return divide_down(modulo, a, b);
  if (is_positive && nonnegative(-a)) return -divide_down(modulo, -a, b);
  if (is_positive && positive(a + b) && positive(b - a)) return modulo ? a : Polynomial{};
  return divide_any_sign(kind, a, b);
}

Polynomial Simplifier::divide_exactly(const Polynomial& a, const Polynomial& b) {
  auto [quotient, rest] = algebra::divide(a, b);
  int64_t g = gcd(content(rest), content(b));
  std::vector<Expr> common = common_monomial(b);
  // Atoms common to both sides.
  std::vector<Expr> shared;
  std::vector<Expr> of_rest = common_monomial(rest);
  for (const Expr& e : common) {
    auto at = std::find_if(of_rest.begin(), of_rest.end(),
                           [&](const Expr& x) { return compare(x, e) == 0; });
    if (at == of_rest.end()) continue;
    shared.push_back(e);
    of_rest.erase(at);
  }
  Polynomial factor = monomial(g, std::move(shared));
  return quotient +
         operation(ExprKind::exact_div, *exact_quotient(rest, factor), *exact_quotient(b, factor));
}

// What holds whatever the signs.
Polynomial Simplifier::divide_any_sign(ExprKind kind, const Polynomial& a, const Polynomial& b) {
  int64_t g = gcd(content(a), content(b));
  if (g > 1) {
    Polynomial factor = constant(g);
    Polynomial r = divide(kind, *exact_quotient(a, factor), *exact_quotient(b, factor));
    return is_modulo(kind) ? tile::algebra::scale(r, g) : r;
  }
  // (x / p) / b is x / (p b) when rounding toward zero.
  const Expr* inner = kind == ExprKind::trunc_div ? only_atom(a, ExprKind::trunc_div) : nullptr;
  if (inner == nullptr) return operation(kind, a, b);
  const AtomInfo& info = atom_info(*inner);
  return divide(kind, info.args[0], info.args[1] * b);
}

// The k with r in [k b, (k + 1) b).
std::optional<Polynomial> Simplifier::window(const Polynomial& r, const Polynomial& b) {
  if (auto n = b.constant()) {
    Interval range = interval(r);
    if (range.lo > -kInfinity && range.hi < kInfinity && range.lo <= range.hi) {
      int64_t k = floor_div(static_cast<int64_t>(range.lo), *n);
      if (k == floor_div(static_cast<int64_t>(range.hi), *n)) return constant(k);
      if (exact_interval(r)) return std::nullopt;
    }
  }
  for (int64_t k : {0, -1, 1}) {
    Polynomial offset = r - tile::algebra::scale(b, k);
    if (nonnegative(offset) && positive(b - offset)) return constant(k);
  }
  return std::nullopt;
}

// Rounding down, b > 0.
Polynomial Simplifier::divide_down(bool modulo, const Polynomial& a, const Polynomial& b) {
  if (auto k = window(a, b)) return modulo ? a - *k * b : *k;
  auto [quotient, rest] = b.constant() ? divide_by_number(a, *b.constant()) : algebra::divide(a, b);
  if (modulo) {
    Polynomial flat = drop_inner_remainders(rest, b);
    if (!(flat == rest)) return divide(ExprKind::floor_mod, flat, b);
  }
  auto result = [&](const Polynomial& value) { return modulo ? value : quotient + value; };
  if (rest.is_zero()) return result({});
  if (!quotient.is_zero()) {
    if (auto k = window(rest, b)) return result(modulo ? rest - *k * b : *k);
  }
  if (auto value = divide_groups(modulo, rest, b)) return result(*value);
  if (!modulo) {
    if (auto value = divide_quotient(rest, b)) return result(*value);
  }
  return result(operation(modulo ? ExprKind::floor_mod : ExprKind::floor_div, rest, b));
}

// With g dividing b and a = g a' + rest, rest = 0 or 0 <= rest < g: a / b = a' / (b / g) and
// a % b = g (a' % (b / g)) + rest.
std::optional<Polynomial> Simplifier::divide_groups(bool modulo, const Polynomial& a,
                                                    const Polynomial& b) {
  std::vector<Term> candidates;
  for (const Expr& e : common_monomial(b)) candidates.push_back({1, {e}});
  int64_t number = content(b);
  std::vector<int64_t> divisors;
  for (const Term& t : a.terms) {
    int64_t g = gcd(number, t.coefficient);
    if (g > 1 && !t.atoms.empty()) divisors.push_back(g);
  }
  std::sort(divisors.rbegin(), divisors.rend());
  divisors.erase(std::unique(divisors.begin(), divisors.end()), divisors.end());
  for (int64_t g : divisors) candidates.push_back({g, {}});
  for (const Term& g : candidates) {
    if (auto value = divide_group(modulo, a, b, g)) return value;
  }
  return std::nullopt;
}

std::optional<Polynomial> Simplifier::divide_group(bool modulo, const Polynomial& a,
                                                   const Polynomial& b, const Term& g) {
  Polynomial multiples, rest;
  for (const Term& t : a.terms) {
    auto atoms = quotient_monomial(t.atoms, g.atoms);
    int64_t q = !atoms                               ? 0
                : t.atoms.empty()                    ? floor_div(t.coefficient, g.coefficient)
                : t.coefficient % g.coefficient == 0 ? t.coefficient / g.coefficient
                                                     : 0;
    int64_t left = checked_sub(t.coefficient, checked_mul(q, g.coefficient));
    if (q != 0) multiples.terms.push_back({q, *atoms});
    if (left != 0) rest.terms.push_back({left, t.atoms});
  }
  if (multiples.is_zero()) return std::nullopt;
  multiples = sorted(std::move(multiples.terms));
  Polynomial factor = monomial(g.coefficient, g.atoms);
  if (!rest.is_zero() && !(nonnegative(rest) && positive(factor - rest))) return std::nullopt;
  ExprKind kind = modulo ? ExprKind::floor_mod : ExprKind::floor_div;
  Polynomial r = divide(kind, multiples, *exact_quotient(b, factor));
  return modulo ? factor * r + rest : r;
}

// (x / p + rest) / b = (x + p rest) / (p b) for b > 0.
std::optional<Polynomial> Simplifier::divide_quotient(const Polynomial& a, const Polynomial& b) {
  for (const Term& t : a.terms) {
    if (t.coefficient != 1 || t.atoms.size() != 1 || t.atoms[0].kind() != ExprKind::floor_div) {
      continue;
    }
    const AtomInfo& info = atom_info(t.atoms[0]);
    const Polynomial& x = info.args[0];
    const Polynomial& p = info.args[1];
    bool numeric = p.constant() && b.constant();
    if (a.terms.size() > 1 && !numeric) continue;
    Polynomial rest = a - atom(t.atoms[0]);
    return divide(ExprKind::floor_div, x + p * rest, p * b);
  }
  return std::nullopt;
}

// Modulo b, c * (x % d) is c * x when b divides c * d.
Polynomial Simplifier::drop_inner_remainders(const Polynomial& a, const Polynomial& b) {
  Polynomial r = a;
  for (const Term& t : a.terms) {
    for (const Expr& e : t.atoms) {
      if (!is_modulo(e.kind())) continue;
      const AtomInfo& info = atom_info(e);
      Polynomial others = monomial(t.coefficient, *quotient_monomial(t.atoms, {e}));
      if (!exact_quotient(others * info.args[1], b)) continue;
      r = r - others * atom(e) + others * info.args[0];
      break;
    }
  }
  return r;
}

namespace {

// p contains every term of `part`.
bool contains(const Polynomial& p, const Polynomial& part) {
  for (const Term& t : part.terms) {
    const Term* found = find_term(p, t.atoms);
    if (found == nullptr || found->coefficient != t.coefficient) return false;
  }
  return !part.is_zero();
}

}  // namespace

namespace {

// Whether p has atoms that could join.
bool may_join(const Polynomial& p) {
  bool quotient = false, remainder = false;
  for (const Term& t : p.terms) {
    for (const Expr& e : t.atoms) {
      if (e.kind() == ExprKind::exact_div) return true;
      remainder = remainder || is_modulo(e.kind());
      quotient = quotient || e.kind() == ExprKind::floor_div || e.kind() == ExprKind::trunc_div;
    }
  }
  return quotient && remainder;
}

}  // namespace

// p with d * (x / d) + x % d, times a common factor, replaced by x, or d * exact_div(x, d) by x,
// where e, an atom of the term t, is one of these.
std::optional<Polynomial> Simplifier::joined(const Polynomial& p, const Term& t, const Expr& e) {
  ExprKind kind = e.kind();
  bool down = kind == ExprKind::floor_div || kind == ExprKind::floor_mod;
  if (!down && !is_modulo(kind) && kind != ExprKind::trunc_div && kind != ExprKind::exact_div) {
    return std::nullopt;
  }
  const AtomInfo& info = atom_info(e);
  const Polynomial& x = info.args[0];
  const Polynomial& d = info.args[1];
  if (d.is_zero()) return std::nullopt;
  Polynomial factor = monomial(t.coefficient, *quotient_monomial(t.atoms, {e}));
  Polynomial rest = p - factor * atom(e);
  if (is_modulo(kind)) {
    Polynomial other = factor * d * divide(down ? ExprKind::floor_div : ExprKind::trunc_div, x, d);
    if (!contains(p, other)) return std::nullopt;
    return rest - other + factor * x;
  }
  auto k = d.terms.size() == 1 ? exact_quotient(factor, d) : std::nullopt;
  if (!k) return std::nullopt;
  if (kind == ExprKind::exact_div) return rest + *k * x;
  Polynomial other = *k * divide(down ? ExprKind::floor_mod : ExprKind::trunc_mod, x, d);
  if (!contains(p, other)) return std::nullopt;
  return rest - other + *k * x;
}

// True if p changed.
bool Simplifier::join_quotients(Polynomial& p) {
  if (!may_join(p)) return false;
  for (const Term& t : p.terms) {
    for (const Expr& e : t.atoms) {
      if (auto r = joined(p, t, e)) {
        p = std::move(*r);
        return true;
      }
    }
  }
  return false;
}

}  // namespace tile::algebra
