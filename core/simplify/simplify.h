// Simplification of integer expressions with ranges (core/language/lift/REFERENCE.md, section 3):
// sound for every assignment inside the ranges, terminating, idempotent, the same code for symbols
// and numbers.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "core/simplify/expr.h"

namespace tile {

// Inclusive bounds, each an expression in variables whose ranges are known earlier; nullopt:
// unbounded.
struct Range {
  std::optional<Expr> lo, hi;
};
// Ranges of variables by name. A variable without an entry is any 64-bit integer.
struct Ranges {
  std::map<std::string, Range> of;
  void set(const std::string& name, const Expr& lo, const Expr& hi) { of[name] = {lo, hi}; }
};

// Constant bounds of an expression's value (inclusive), as tight as interval arithmetic over its
// simplified linear form gives; nullopt: unbounded or overflow.
struct ConstantRange {
  std::optional<int64_t> lo, hi;
};
ConstantRange constant_range(const Expr& e, const Ranges& ranges);

// The canonical form: a sum of a constant and products, sorted by degree and name, over quotients,
// remainders, extrema, comparisons and selects that the ranges leave undecided; equal polynomials
// give equal trees. Its value is that of `e` wherever `e` has one, except that 64 bits may overflow
// on another way to the same result. `e` comes back unchanged if simplifying it overflows, or if it
// nests deeper than about a thousand operations. Throws nothing.
Expr simplify(const Expr& e, const Ranges& ranges);

// true / false when it is proved for all assignments in the ranges, else nullopt.
std::optional<bool> prove_less(const Expr& a, const Expr& b, const Ranges& ranges);
std::optional<bool> prove_equal(const Expr& a, const Expr& b, const Ranges& ranges);

}  // namespace tile
