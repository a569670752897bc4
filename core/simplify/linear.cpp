// Integer linear forms of expressions: the fast path of every numeric client.
#include <limits>

#include "core/simplify/expr.h"
#include "core/support/checked.h"

namespace tile {
namespace {

void add_term(LinearForm& form, const std::string& name, int64_t coefficient) {
  if (coefficient == 0) return;
  auto [at, inserted] = form.terms.try_emplace(name, coefficient);
  if (inserted) return;
  at->second = checked_add(at->second, coefficient);
  if (at->second == 0) form.terms.erase(at);
}

void add_scaled(LinearForm& form, const LinearForm& other, int64_t scale) {
  form.constant = checked_add(form.constant, checked_mul(other.constant, scale));
  for (const auto& [name, c] : other.terms) add_term(form, name, checked_mul(c, scale));
}

// form += scale * e. Throws Overflow.
bool accumulate(const Expr& e, int64_t scale, LinearForm& form);

bool accumulate_product(const Expr& e, int64_t scale, LinearForm& form) {
  const Expr* factor = nullptr;
  for (const Expr& arg : e.args()) {
    if (arg.is_constant()) {
      scale = checked_mul(scale, arg.value());
    } else if (factor == nullptr) {
      factor = &arg;
    } else {
      return false;
    }
  }
  if (factor != nullptr) return accumulate(*factor, scale, form);
  form.constant = checked_add(form.constant, scale);
  return true;
}

// a / d where every coefficient is a multiple of d.
bool accumulate_quotient(const Expr& e, int64_t scale, LinearForm& form) {
  const Expr& divisor = e.args()[1];
  LinearForm numerator;
  if (!divisor.is_constant() || divisor.is_constant(0)) return false;
  if (!accumulate(e.args()[0], 1, numerator)) return false;
  if (trunc_mod(numerator.constant, divisor.value()) != 0) return false;
  numerator.constant = trunc_div(numerator.constant, divisor.value());
  for (auto& term : numerator.terms) {
    if (trunc_mod(term.second, divisor.value()) != 0) return false;
    term.second = trunc_div(term.second, divisor.value());
  }
  add_scaled(form, numerator, scale);
  return true;
}

bool accumulate(const Expr& e, int64_t scale, LinearForm& form) {
  switch (e.kind()) {
    case ExprKind::constant:
      form.constant = checked_add(form.constant, checked_mul(scale, e.value()));
      return true;
    case ExprKind::variable:
      add_term(form, e.name(), scale);
      return true;
    case ExprKind::add:
      for (const Expr& arg : e.args()) {
        if (!accumulate(arg, scale, form)) return false;
      }
      return true;
    case ExprKind::sub:
      return accumulate(e.args()[0], scale, form) &&
             accumulate(e.args()[1], checked_neg(scale), form);
    case ExprKind::neg:
      return accumulate(e.args()[0], checked_neg(scale), form);
    case ExprKind::mul:
      return accumulate_product(e, scale, form);
    case ExprKind::exact_div:
      return accumulate_quotient(e, scale, form);
    default:
      return false;
  }
}

}  // namespace

std::optional<LinearForm> linear_form(const Expr& e) {
  try {
    LinearForm form;
    if (!accumulate(e, 1, form)) return std::nullopt;
    return form;
  } catch (const Overflow&) {
    return std::nullopt;
  }
}

Expr from_linear(const LinearForm& form) {
  // The smallest integer has no negation to subtract.
  auto is_added = [](int64_t c) { return c > 0 || c == std::numeric_limits<int64_t>::min(); };
  Expr sum = form.constant;
  for (const auto& [name, c] : form.terms) {
    if (is_added(c)) sum = sum + Expr(c) * Expr::variable(name);
  }
  for (const auto& [name, c] : form.terms) {
    if (is_added(c)) continue;
    Expr v = Expr::variable(name);
    if (!sum.is_constant(0)) {
      sum = sum - Expr(-c) * v;
    } else {
      sum = c == -1 ? -v : Expr(c) * v;
    }
  }
  return sum;
}

}  // namespace tile
