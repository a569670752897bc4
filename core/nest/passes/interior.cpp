#include "core/nest/passes/interior.h"

#include <algorithm>

#include "core/support/checked.h"

namespace tile::nest {

void Middle::enter(const std::string& variable, const Expr& begin, const Expr& extent) {
  std::optional<int64_t> from = at(begin), count = at(extent);
  if (from) values_[variable] = *from + std::max<int64_t>(0, count.value_or(1) - 1) / 2;
}

void Middle::centre(const std::string& variable, const std::set<int64_t>& periods) {
  auto at = values_.find(variable);
  if (at == values_.end()) return;
  for (auto n = periods.rbegin(); n != periods.rend(); ++n) {
    at->second = floor_div(at->second, *n) * *n + (*n - 1) / 2;
  }
}

std::optional<int64_t> Middle::at(const Expr& e) const { return value_at(e, values_); }

bool Middle::uniform(const Expr& e) const {
  if (e.kind() == ExprKind::variable) return parameters_.contains(e.name());
  return std::all_of(e.args().begin(), e.args().end(),
                     [&](const Expr& arg) { return uniform(arg); });
}

bool has_choices(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::constant:
    case ExprKind::variable:
      return false;
    case ExprKind::min:
    case ExprKind::max:
    case ExprKind::less:
    case ExprKind::equal:
    case ExprKind::select:
    case ExprKind::floor_div:
    case ExprKind::floor_mod:
    case ExprKind::trunc_div:
    case ExprKind::trunc_mod:
      return true;
    default:
      return std::any_of(e.args().begin(), e.args().end(), has_choices);
  }
}

namespace {

class Decider {
 public:
  Decider(const Ranges& ranges, const Middle& middle, const Holds& holds)
      : ranges_(ranges), middle_(middle), holds_(holds) {}

  Expr run(const Expr& e) {
    if (!has_choices(e) || middle_.uniform(e)) return e;
    if (e.kind() == ExprKind::select) return selection(e);
    std::vector<Expr> args;
    for (const Expr& arg : e.args()) args.push_back(run(arg));
    switch (e.kind()) {
      case ExprKind::min:
      case ExprKind::max:
        return extremum(e.kind(), args);
      case ExprKind::less:
        if (holds_({gap(args[1], args[0]) - 1})) return 1;
        if (holds_({gap(args[0], args[1])})) return 0;
        break;
      case ExprKind::equal:
        if (holds_({gap(args[1], args[0]) - 1})) return 0;
        if (holds_({gap(args[0], args[1]) - 1})) return 0;
        break;
      case ExprKind::floor_div:
      case ExprKind::floor_mod:
      case ExprKind::trunc_div:
      case ExprKind::trunc_mod:
        return division(e.kind(), args);
      default:
        break;
    }
    return build(e.kind(), args);
  }

 private:
  Expr gap(const Expr& a, const Expr& b) const { return simplify(a - b, ranges_); }

  Expr selection(const Expr& e) {
    Expr condition = simplify(run(e.args()[0]), ranges_);
    if (condition.is_constant()) return run(e.args()[condition.value() != 0 ? 1 : 2]);
    return select(condition, run(e.args()[1]), run(e.args()[2]));
  }

  Expr extremum(ExprKind kind, const std::vector<Expr>& args) {
    Expr result = args[0];
    for (size_t i = 1; i < args.size(); ++i) {
      const Expr& low = kind == ExprKind::min ? result : args[i];
      const Expr& high = kind == ExprKind::min ? args[i] : result;
      if (holds_({gap(high, low)})) continue;  // the earlier one
      if (holds_({gap(low, high)})) {
        result = args[i];
      } else {
        result = build(kind, {result, args[i]});
      }
    }
    return result;
  }

  // a stays in [q n, q n + n) for one q.
  Expr division(ExprKind kind, const std::vector<Expr>& args) {
    Expr whole = build(kind, args);
    const Expr& a = args[0];
    if (!args[1].is_constant() || args[1].value() <= 0) return whole;
    int64_t n = args[1].value();
    std::optional<int64_t> at = middle_.at(a);
    ConstantRange range = constant_range(a, ranges_);
    if (!at || !range.lo || !range.hi) return whole;
    int64_t q = floor_div(*at, n);
    bool truncates = kind == ExprKind::trunc_div || kind == ExprKind::trunc_mod;
    if (truncates && q < 0) return whole;
    try {
      int64_t first = checked_mul(q, n), last = checked_add(first, n - 1);
      int64_t inside = std::min(last, *range.hi) - std::max(first, *range.lo);
      if (inside < checked_sub(*range.hi, *range.lo) / 2) return whole;
      if (!holds_({gap(a, first), gap(last, a)})) return whole;
      bool quotient = kind == ExprKind::trunc_div || kind == ExprKind::floor_div;
      return quotient ? Expr(q) : a - Expr(first);
    } catch (const Overflow&) {
      return whole;
    }
  }

  const Ranges& ranges_;
  const Middle& middle_;
  const Holds& holds_;
};

}  // namespace

Expr decided(const Expr& e, const Ranges& ranges, const Middle& middle, const Holds& holds) {
  if (!has_choices(e)) return e;
  try {
    return simplify(Decider(ranges, middle, holds).run(e), ranges);
  } catch (const Overflow&) {
    return e;
  }
}

}  // namespace tile::nest
