// Integer expressions of a nest as C++ text: 32-bit arithmetic where the ranges of the variables
// prove it, else 64-bit.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/simplify/expr.h"

namespace tile::cuda {

// Inclusive bounds of a value, saturated at 62 bits.
struct Interval {
  int64_t lo = 0;
  int64_t hi = 0;
  bool narrow() const;  // fits in 32 bits
};

struct VariableText {
  std::string name;
  Interval range;
};
using Variables = std::map<std::string, VariableText, std::less<>>;

struct ExpressionText {
  std::string text;   // a primary expression, or one in parentheses
  bool wide = false;  // of type long long, else int
};

Interval interval(const Expr& e, const Variables& variables);
ExpressionText print_expression(const Expr& e, const Variables& variables);
// e is provably a multiple of `factor`.
bool multiple_of(const Expr& e, int64_t factor);

}  // namespace tile::cuda
