#include "core/passes/normalize/index_forms.h"

#include <algorithm>

#include "core/support/checked.h"

namespace tile {
namespace {

constexpr int kBudget = 200;  // nodes looked at for one value

// The integers that a type holds; of u64 those that i64 holds too.
FormRange limits_of(DType type) {
  if (type == DType::i64) return {Rational(INT64_MIN), Rational(INT64_MAX)};
  if (type == DType::u64) return {Rational(0), Rational(INT64_MAX)};
  int bits = bit_width(type);
  if (is_unsigned_integer(type)) return {Rational(0), Rational((int64_t{1} << bits) - 1)};
  int64_t top = int64_t{1} << (bits - 1);
  return {Rational(-top), Rational(top - 1)};
}

}  // namespace

FormRange IndexForms::range(const Affine& form) const {
  FormRange r{form.constant, form.constant};
  for (size_t i = 0; i < form.coefficients.size(); ++i) {
    if (form.coefficients[i].is_zero()) continue;
    Rational reach = form.coefficients[i] * Rational(piece_.box[i] - 1);
    Rational& end = reach < Rational(0) ? r.lo : r.hi;
    end = end + reach;
  }
  for (const Constraint& c : piece_.constraints) {
    Affine difference = form - c.form;
    if (!difference.is_constant() || !c.integral) continue;
    r.lo = std::max(r.lo, difference.constant + Rational(c.lo));
    r.hi = std::min(r.hi, difference.constant + Rational(c.hi) - Rational(1));
  }
  return r;
}

bool IndexForms::within(const Affine& form, int64_t lo, int64_t hi) const {
  FormRange r = range(form);
  return !(r.lo < Rational(lo)) && r.hi < Rational(hi);
}

bool IndexForms::fits(const Affine& form, DType type) const {
  FormRange r = range(form), limits = limits_of(type);
  return !(r.lo < limits.lo) && !(limits.hi < r.hi);
}

std::optional<Affine> IndexForms::form(const Body& body, NodeId id) const {
  return form(body, body[id]);
}

std::optional<Affine> IndexForms::form(const Body& body, const Node& node) const {
  int budget = kBudget;
  try {
    return search(body, node, budget);
  } catch (const Overflow&) {
    return std::nullopt;
  }
}

std::optional<Affine> IndexForms::search(const Body& body, const Node& node, int& budget) const {
  if (--budget < 0 || !is_integer(node.type)) return std::nullopt;
  std::optional<Affine> found;
  if (node.kind == NodeKind::integer) found = constant_affine(node.integer);
  if (node.kind == NodeKind::index) found = iterator_affine(node.slot);
  if (node.kind == NodeKind::operation) found = operation(body, node, budget);
  bool exact = found && found->is_integral() && fits(*found, node.type);
  return exact ? found : std::nullopt;
}

std::optional<Affine> IndexForms::operation(const Body& body, const Node& node, int& budget) const {
  if (node.op == Op::select) {
    std::optional<bool> first = decided(body, body[node.args[0]]);
    return first ? search(body, body[node.args[*first ? 1 : 2]], budget) : std::nullopt;
  }
  bool one = node.op == Op::cast || node.op == Op::neg || node.op == Op::ident;
  bool two = node.op == Op::add || node.op == Op::sub || node.op == Op::mul || node.op == Op::div ||
             node.op == Op::mod || node.op == Op::min || node.op == Op::max;
  if (!one && !two) return std::nullopt;
  std::optional<Affine> a = search(body, body[node.args[0]], budget);
  if (!a || one) return a && node.op == Op::neg ? *a * Rational(-1) : a;
  std::optional<Affine> b = search(body, body[node.args[1]], budget);
  if (!b) return std::nullopt;
  switch (node.op) {
    case Op::add:
      return *a + *b;
    case Op::sub:
      return *a - *b;
    case Op::mul:
      if (b->is_constant()) return *a * b->constant;
      return a->is_constant() ? std::optional(*b * a->constant) : std::nullopt;
    case Op::min:
    case Op::max: {
      FormRange difference = range(*a - *b);
      bool larger = node.op == Op::max;
      if (!(difference.lo < Rational(0))) return larger ? a : b;
      if (!(Rational(0) < difference.hi)) return larger ? b : a;
      return std::nullopt;
    }
    default:
      return quotient(node, *a, *b);
  }
}

// a = n * whole + rest with 0 <= rest < n and whole >= 0 everywhere: truncation is exact then.
std::optional<Affine> IndexForms::quotient(const Node& node, const Affine& a,
                                           const Affine& b) const {
  if (!b.is_constant() || !(Rational(0) < b.constant)) return std::nullopt;
  int64_t n = b.constant.num();
  Affine whole = constant_affine(floor_div(a.constant.num(), n));
  whole.coefficients.assign(a.coefficients.size(), Rational(0));
  for (size_t i = 0; i < a.coefficients.size(); ++i) {
    int64_t c = a.coefficients[i].num();
    if (c % n == 0) whole.coefficients[i] = Rational(c / n);
  }
  Affine rest = a - whole * b.constant;
  // The remaining terms may reach one multiple of n further.
  whole.constant = whole.constant + Rational(floor_div(range(rest).lo.floor(), n));
  rest = a - whole * b.constant;
  if (!within(rest, 0, n) || range(whole).lo < Rational(0)) return std::nullopt;
  return node.op == Op::div ? whole : rest;
}

std::optional<bool> IndexForms::decided(const Body& body, const Node& node) const {
  if (node.kind != NodeKind::operation || node.args.size() != 2) return std::nullopt;
  if (info(node.op).rule != TypeRule::comparison) return std::nullopt;
  std::optional<Affine> a = form(body, node.args[0]), b = form(body, node.args[1]);
  if (!a || !b) return std::nullopt;
  FormRange d = range(*a - *b);
  Rational zero(0);
  bool below = d.hi < zero, above = zero < d.lo, apart = below || above;
  bool same = d.lo == zero && d.hi == zero;
  bool not_above = !(zero < d.hi), not_below = !(d.lo < zero);
  auto answer = [](bool yes, bool no) -> std::optional<bool> {
    return yes ? std::optional(true) : no ? std::optional(false) : std::nullopt;
  };
  switch (node.op) {
    case Op::lt:
      return answer(below, not_below);
    case Op::le:
      return answer(not_above, above);
    case Op::gt:
      return answer(above, not_above);
    case Op::ge:
      return answer(not_below, below);
    case Op::eq:
      return answer(same, apart);
    case Op::ne:
      return answer(apart, same);
    default:
      return std::nullopt;
  }
}

}  // namespace tile
