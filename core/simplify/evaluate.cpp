// Evaluation of expressions in checked 64-bit arithmetic.
#include <algorithm>

#include "core/simplify/expr.h"
#include "core/support/checked.h"

namespace tile {
namespace {

// A binary operation on values; nullopt where it has none.
std::optional<int64_t> apply(ExprKind kind, int64_t a, int64_t b) {
  switch (kind) {
    case ExprKind::add:
      return checked_add(a, b);
    case ExprKind::sub:
      return checked_sub(a, b);
    case ExprKind::mul:
      return checked_mul(a, b);
    case ExprKind::min:
      return std::min(a, b);
    case ExprKind::max:
      return std::max(a, b);
    case ExprKind::less:
      return a < b;
    case ExprKind::equal:
      return a == b;
    default:
      break;
  }
  if (b == 0) return std::nullopt;
  switch (kind) {
    case ExprKind::exact_div:
      if (trunc_mod(a, b) != 0) return std::nullopt;
      return trunc_div(a, b);
    case ExprKind::trunc_div:
      return trunc_div(a, b);
    case ExprKind::trunc_mod:
      return trunc_mod(a, b);
    case ExprKind::floor_div:
      return floor_div(a, b);
    case ExprKind::floor_mod:
      return floor_mod(a, b);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<int64_t> evaluate(const Expr& e, const Environment& environment) {
  if (e.kind() == ExprKind::constant) return e.value();
  if (e.kind() == ExprKind::variable) return environment(e.name());
  std::optional<int64_t> value = evaluate(e.args()[0], environment);
  if (!value) return std::nullopt;
  if (e.kind() == ExprKind::neg) return checked_neg(*value);
  if (e.kind() == ExprKind::select) return evaluate(e.args()[*value != 0 ? 1 : 2], environment);
  for (size_t i = 1; i < e.args().size(); ++i) {
    std::optional<int64_t> next = evaluate(e.args()[i], environment);
    if (!next) return std::nullopt;
    value = apply(e.kind(), *value, *next);
    if (!value) return std::nullopt;
  }
  return value;
}

std::optional<int64_t> value_at(const Expr& e,
                                const std::map<std::string, int64_t, std::less<>>& values) {
  try {
    return evaluate(e, [&](std::string_view name) -> std::optional<int64_t> {
      auto it = values.find(name);
      return it == values.end() ? std::nullopt : std::optional<int64_t>(it->second);
    });
  } catch (const Overflow&) {
    return std::nullopt;
  }
}

}  // namespace tile
