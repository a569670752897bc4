#include "core/simplify/polynomial.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "core/support/checked.h"

namespace tile::algebra {

int compare(const Expr& a, const Expr& b) {
  if (a.node() == b.node()) return 0;
  if (a.kind() != b.kind()) {
    auto rank = [](const Expr& e) {
      return e.kind() == ExprKind::variable ? -1 : static_cast<int>(e.kind());
    };
    return rank(a) < rank(b) ? -1 : 1;
  }
  if (a.kind() == ExprKind::variable) {
    int order = a.name().compare(b.name());
    return (order > 0) - (order < 0);
  }
  if (a.value() != b.value()) return a.value() < b.value() ? -1 : 1;
  if (a.args().size() != b.args().size()) return a.args().size() < b.args().size() ? -1 : 1;
  for (size_t i = 0; i < a.args().size(); ++i) {
    if (int order = compare(a.args()[i], b.args()[i])) return order;
  }
  return 0;
}

int compare_monomials(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    if (int order = compare(a[i], b[i])) return order;
  }
  return 0;
}

std::optional<int64_t> Polynomial::constant() const {
  if (terms.empty()) return 0;
  if (terms.size() == 1 && terms[0].atoms.empty()) return terms[0].coefficient;
  return std::nullopt;
}

int64_t Polynomial::constant_term() const {
  return !terms.empty() && terms[0].atoms.empty() ? terms[0].coefficient : 0;
}

bool operator==(const Polynomial& a, const Polynomial& b) {
  if (a.terms.size() != b.terms.size()) return false;
  for (size_t i = 0; i < a.terms.size(); ++i) {
    if (a.terms[i].coefficient != b.terms[i].coefficient) return false;
    if (compare_monomials(a.terms[i].atoms, b.terms[i].atoms) != 0) return false;
  }
  return true;
}

Polynomial constant(int64_t value) {
  Polynomial p;
  if (value != 0) p.terms.push_back({value, {}});
  return p;
}

Polynomial atom(const Expr& e) {
  Polynomial p;
  p.terms.push_back({1, {e}});
  return p;
}

Polynomial sorted(std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return compare_monomials(a.atoms, b.atoms) < 0; });
  Polynomial p;
  p.terms.reserve(terms.size());
  for (Term& term : terms) {
    if (!p.terms.empty() && compare_monomials(p.terms.back().atoms, term.atoms) == 0) {
      Term& last = p.terms.back();
      last.coefficient = checked_add(last.coefficient, term.coefficient);
    } else {
      if (!p.terms.empty() && p.terms.back().coefficient == 0) p.terms.pop_back();
      p.terms.push_back(std::move(term));
    }
  }
  if (!p.terms.empty() && p.terms.back().coefficient == 0) p.terms.pop_back();
  return p;
}

namespace {

// a + sign * b
Polynomial merge(const Polynomial& a, const Polynomial& b, int64_t sign) {
  Polynomial p;
  p.terms.reserve(a.terms.size() + b.terms.size());
  size_t i = 0, j = 0;
  while (i < a.terms.size() || j < b.terms.size()) {
    int order = i == a.terms.size()   ? 1
                : j == b.terms.size() ? -1
                                      : compare_monomials(a.terms[i].atoms, b.terms[j].atoms);
    int64_t c = 0;
    if (order <= 0) c = a.terms[i].coefficient;
    if (order >= 0) {
      int64_t d = b.terms[j].coefficient;
      c = sign > 0 ? checked_add(c, d) : checked_sub(c, d);
    }
    if (c != 0) p.terms.push_back({c, order <= 0 ? a.terms[i].atoms : b.terms[j].atoms});
    if (order <= 0) ++i;
    if (order >= 0) ++j;
  }
  return p;
}

// The product of two monomials; a comparison times itself is itself.
std::vector<Expr> product(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  std::vector<Expr> atoms;
  atoms.reserve(a.size() + b.size());
  std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(atoms),
             [](const Expr& x, const Expr& y) { return compare(x, y) < 0; });
  auto repeated = [](const Expr& x, const Expr& y) { return is_boolean(x) && compare(x, y) == 0; };
  atoms.erase(std::unique(atoms.begin(), atoms.end(), repeated), atoms.end());
  return atoms;
}

}  // namespace

Polynomial operator+(const Polynomial& a, const Polynomial& b) { return merge(a, b, 1); }
Polynomial operator-(const Polynomial& a, const Polynomial& b) { return merge(a, b, -1); }
Polynomial operator-(const Polynomial& a) { return scale(a, -1); }

Polynomial operator*(const Polynomial& a, const Polynomial& b) {
  if (auto c = a.constant()) return scale(b, *c);
  if (auto c = b.constant()) return scale(a, *c);
  std::vector<Term> terms;
  terms.reserve(a.terms.size() * b.terms.size());
  for (const Term& x : a.terms) {
    for (const Term& y : b.terms) {
      terms.push_back({checked_mul(x.coefficient, y.coefficient), product(x.atoms, y.atoms)});
    }
  }
  return sorted(std::move(terms));
}

Polynomial scale(const Polynomial& a, int64_t factor) {
  if (factor == 0) return {};
  Polynomial p = a;
  for (Term& term : p.terms) term.coefficient = checked_mul(term.coefficient, factor);
  return p;
}

Polynomial without_constant(const Polynomial& a) {
  Polynomial p = a;
  if (!p.terms.empty() && p.terms[0].atoms.empty()) p.terms.erase(p.terms.begin());
  return p;
}

namespace {

Expr term_expr(int64_t coefficient, const std::vector<Expr>& atoms) {
  if (atoms.empty()) return coefficient;
  if (coefficient == 1 && atoms.size() == 1) return atoms[0];
  if (coefficient == -1) return Expr::make(ExprKind::neg, {term_expr(1, atoms)});
  std::vector<Expr> factors;
  factors.reserve(atoms.size() + 1);
  if (coefficient != 1) factors.emplace_back(coefficient);
  factors.insert(factors.end(), atoms.begin(), atoms.end());
  return Expr::make(ExprKind::mul, std::move(factors));
}

}  // namespace

Expr to_expr(const Polynomial& p) {
  if (p.terms.empty()) return 0;
  // The constant and the smallest integer, which has no negation, are always added.
  auto is_added = [](const Term& t) {
    return t.coefficient > 0 || t.atoms.empty() ||
           t.coefficient == std::numeric_limits<int64_t>::min();
  };
  std::vector<Expr> added;
  for (const Term& t : p.terms) {
    if (is_added(t)) added.push_back(term_expr(t.coefficient, t.atoms));
  }
  bool any = !added.empty();
  Expr sum = added.size() == 1 ? added[0] : Expr::make(ExprKind::add, std::move(added));
  for (const Term& t : p.terms) {
    if (is_added(t)) continue;
    sum = any ? Expr::make(ExprKind::sub, {sum, term_expr(-t.coefficient, t.atoms)})
              : term_expr(t.coefficient, t.atoms);
    any = true;
  }
  return sum;
}

std::optional<std::vector<Expr>> quotient_monomial(const std::vector<Expr>& monomial,
                                                   const std::vector<Expr>& divisor) {
  if (divisor.size() > monomial.size()) return std::nullopt;
  std::vector<Expr> rest;
  size_t j = 0;
  for (const Expr& a : monomial) {
    if (j < divisor.size() && compare(a, divisor[j]) == 0) {
      ++j;
    } else {
      rest.push_back(a);
    }
  }
  if (j != divisor.size()) return std::nullopt;
  return rest;
}

Quotient divide(const Polynomial& a, const Polynomial& b) {
  const Term& lead = b.terms.back();
  std::vector<Term> quotient, remainder;
  Polynomial rest = a;
  while (!rest.is_zero()) {
    const Term& top = rest.terms.back();
    auto monomial = quotient_monomial(top.atoms, lead.atoms);
    int64_t q = monomial ? trunc_div(top.coefficient, lead.coefficient) : 0;
    if (q == 0) {
      remainder.push_back(std::move(rest.terms.back()));
      rest.terms.pop_back();
      continue;
    }
    Polynomial step;
    step.terms.push_back({q, std::move(*monomial)});
    quotient.push_back(step.terms[0]);
    rest = rest - step * b;
  }
  return {sorted(std::move(quotient)), sorted(std::move(remainder))};
}

std::optional<Polynomial> exact_quotient(const Polynomial& a, const Polynomial& b) {
  Quotient q = divide(a, b);
  if (!q.remainder.is_zero()) return std::nullopt;
  return std::move(q.quotient);
}

int64_t content(const Polynomial& p) {
  int64_t g = 0;
  for (const Term& t : p.terms) {
    g = gcd(g, t.coefficient);
    if (g == 1) break;
  }
  return g;
}

std::vector<Expr> common_monomial(const Polynomial& p) {
  if (p.terms.empty()) return {};
  std::vector<Expr> common = p.terms[0].atoms;
  for (const Term& t : p.terms) {
    std::vector<Expr> both;
    std::set_intersection(common.begin(), common.end(), t.atoms.begin(), t.atoms.end(),
                          std::back_inserter(both),
                          [](const Expr& x, const Expr& y) { return compare(x, y) < 0; });
    common = std::move(both);
    if (common.empty()) break;
  }
  return common;
}

const Term* find_term(const Polynomial& p, const std::vector<Expr>& monomial) {
  auto at = std::lower_bound(
      p.terms.begin(), p.terms.end(), monomial,
      [](const Term& t, const std::vector<Expr>& m) { return compare_monomials(t.atoms, m) < 0; });
  if (at == p.terms.end() || compare_monomials(at->atoms, monomial) != 0) return nullptr;
  return &*at;
}

Polynomial expand(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::constant:
      return constant(e.value());
    case ExprKind::add: {
      Polynomial sum;
      for (const Expr& arg : e.args()) sum = sum + expand(arg);
      return sum;
    }
    case ExprKind::sub:
      return expand(e.args()[0]) - expand(e.args()[1]);
    case ExprKind::neg:
      return -expand(e.args()[0]);
    case ExprKind::mul: {
      // Products of sums are kept as atoms where expanding them is too large.
      auto is_sum = [](const Expr& x) {
        return x.kind() == ExprKind::add || x.kind() == ExprKind::sub;
      };
      if (std::any_of(e.args().begin(), e.args().end(), is_sum)) return atom(e);
      Polynomial product = constant(1);
      for (const Expr& arg : e.args()) {
        product = product * (arg.is_constant() ? constant(arg.value()) : atom(arg));
      }
      return product;
    }
    default:
      return atom(e);
  }
}

}  // namespace tile::algebra
