// Integer polynomials over atoms: the canonical form in which expressions are simplified. An atom
// is a variable or an operation that is no sum or product (a quotient, a minimum, a comparison …)
// whose operands are canonical themselves. Arithmetic throws Overflow.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/simplify/expr.h"

namespace tile::algebra {

// A total order on expressions by structure: variables first, by name.
int compare(const Expr& a, const Expr& b);

// coefficient * product of atoms; powers are repeated atoms.
struct Term {
  int64_t coefficient = 0;
  std::vector<Expr> atoms;  // sorted
};
// By degree, then by atoms; a monomial order, so division of polynomials terminates and is exact
// where an exact quotient exists.
int compare_monomials(const std::vector<Expr>& a, const std::vector<Expr>& b);

// Sorted by monomial, none twice, no zero coefficient.
struct Polynomial {
  std::vector<Term> terms;

  bool is_zero() const { return terms.empty(); }
  std::optional<int64_t> constant() const;  // the value, if it is one
  int64_t constant_term() const;
  friend bool operator==(const Polynomial& a, const Polynomial& b);
};

Polynomial constant(int64_t value);
Polynomial atom(const Expr& e);
Polynomial sorted(std::vector<Term> terms);  // any order, merges equal monomials
Polynomial operator+(const Polynomial& a, const Polynomial& b);
Polynomial operator-(const Polynomial& a, const Polynomial& b);
Polynomial operator-(const Polynomial& a);
Polynomial operator*(const Polynomial& a, const Polynomial& b);
Polynomial scale(const Polynomial& a, int64_t factor);
Polynomial without_constant(const Polynomial& a);

// The canonical expression: the constant, the terms with positive, then those with negative
// coefficients.
Expr to_expr(const Polynomial& p);

// a = b * quotient + remainder; no term of the remainder is a multiple of b's leading term, and
// coefficients of the leading monomial are smaller than b's. b != 0.
struct Quotient {
  Polynomial quotient, remainder;
};
Quotient divide(const Polynomial& a, const Polynomial& b);
std::optional<Polynomial> exact_quotient(const Polynomial& a, const Polynomial& b);

// The greatest common divisor of the coefficients; 0 for the zero polynomial.
int64_t content(const Polynomial& p);
// The atoms common to all terms, with powers.
std::vector<Expr> common_monomial(const Polynomial& p);
// monomial / divisor; nullopt if it is no multiple.
std::optional<std::vector<Expr>> quotient_monomial(const std::vector<Expr>& monomial,
                                                   const std::vector<Expr>& divisor);
// The polynomial of a canonical expression, without simplifying.
Polynomial expand(const Expr& canonical);
// The term of `p` with this monomial; nullptr if there is none.
const Term* find_term(const Polynomial& p, const std::vector<Expr>& monomial);

// Comparisons have the values 0 and 1.
inline bool is_boolean(const Expr& e) {
  return e.kind() == ExprKind::less || e.kind() == ExprKind::equal;
}

}  // namespace tile::algebra
