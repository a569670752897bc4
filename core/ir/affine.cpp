#include "core/ir/affine.h"

#include <algorithm>

namespace tile {
namespace {

template <class Op>
Affine combine(const Affine& a, const Affine& b, Op op) {
  Affine r;
  r.coefficients.resize(std::max(a.coefficients.size(), b.coefficients.size()));
  for (size_t i = 0; i < r.coefficients.size(); ++i) {
    r.coefficients[i] = op(a.coefficient(i), b.coefficient(i));
  }
  r.constant = op(a.constant, b.constant);
  return r;
}

void append_term(std::string& out, const Rational& factor, const std::string& name) {
  bool negative = factor < Rational(0);
  Rational size = negative ? -factor : factor;
  if (out.empty()) {
    if (negative) out += "-";
  } else {
    out += negative ? " - " : " + ";
  }
  if (name.empty()) {
    out += to_string(size);
  } else if (size == Rational(1)) {
    out += name;
  } else {
    out += to_string(size) + "*" + name;
  }
}

}  // namespace

bool Affine::is_constant() const {
  return std::all_of(coefficients.begin(), coefficients.end(),
                     [](const Rational& c) { return c.is_zero(); });
}

bool Affine::is_integral() const {
  return constant.is_integer() && std::all_of(coefficients.begin(), coefficients.end(),
                                              [](const Rational& c) { return c.is_integer(); });
}

Rational Affine::evaluate(std::span<const int64_t> x) const {
  Rational sum = constant;
  for (size_t i = 0; i < coefficients.size(); ++i) {
    if (!coefficients[i].is_zero()) sum += coefficients[i] * Rational(x[i]);
  }
  return sum;
}

bool operator==(const Affine& a, const Affine& b) {
  size_t n = std::max(a.coefficients.size(), b.coefficients.size());
  for (size_t i = 0; i < n; ++i) {
    if (a.coefficient(i) != b.coefficient(i)) return false;
  }
  return a.constant == b.constant;
}

Affine operator+(const Affine& a, const Affine& b) {
  return combine(a, b, [](const Rational& x, const Rational& y) { return x + y; });
}
Affine operator-(const Affine& a, const Affine& b) {
  return combine(a, b, [](const Rational& x, const Rational& y) { return x - y; });
}
Affine operator*(const Affine& a, const Rational& factor) {
  Affine r = a;
  for (Rational& c : r.coefficients) c *= factor;
  r.constant *= factor;
  return r;
}
Affine constant_affine(const Rational& value) { return {{}, value}; }
Affine iterator_affine(size_t i) {
  Affine r;
  r.coefficients.resize(i + 1);
  r.coefficients[i] = 1;
  return r;
}
Affine substitute(const Affine& form, std::span<const Affine> replacement) {
  Affine r = constant_affine(form.constant);
  for (size_t i = 0; i < form.coefficients.size(); ++i) {
    if (!form.coefficients[i].is_zero()) r = r + replacement[i] * form.coefficients[i];
  }
  return r;
}

std::string to_string(const Affine& form, std::span<const std::string> names) {
  std::string out;
  for (size_t i = 0; i < form.coefficients.size(); ++i) {
    if (!form.coefficients[i].is_zero()) append_term(out, form.coefficients[i], names[i]);
  }
  if (out.empty() || !form.constant.is_zero()) append_term(out, form.constant, "");
  return out;
}

}  // namespace tile
