#include "core/nest/passes/loop_context.h"

#include <algorithm>

#include "core/ir/analysis/value_range.h"

namespace tile::nest {
namespace {

// A bound of a fold, as an expression where it is one.
Expr bound_of(const Body& b, NodeId id, bool low) {
  const Node& node = b[id];
  if (node.kind == NodeKind::size) return node.expr;
  ValueRange range = value_range(b, id);
  return low ? range.lo : range.hi;
}

// Whether variables are multiplied with or divided by each other.
bool is_product(const Expr& e) {
  auto varies = [](const Expr& arg) { return !arg.is_constant(); };
  bool factors = e.kind() == ExprKind::mul || e.kind() == ExprKind::trunc_div;
  if (factors && std::count_if(e.args().begin(), e.args().end(), varies) > 1) return true;
  return std::any_of(e.args().begin(), e.args().end(), is_product);
}

// What the variable is divided by in the expression.
void collect_periods(const Expr& e, const std::string& variable, std::set<int64_t>& periods) {
  if (e.is_constant() || e.kind() == ExprKind::variable) return;
  bool divides = e.kind() == ExprKind::floor_div || e.kind() == ExprKind::floor_mod;
  if (divides && e.args()[1].is_constant() && e.args()[1].value() > 0) {
    const Expr& a = e.args()[0];
    if (a.kind() == ExprKind::variable && a.name() == variable) periods.insert(e.args()[1].value());
  }
  for (const Expr& arg : e.args()) collect_periods(arg, variable, periods);
}

// Of a parallel loop over the points of a grid: the loops inside it that name their coordinates.
std::set<int64_t> periods_of(const For& f) {
  std::set<int64_t> periods;
  const Block* body = &f.body;
  while (body->size() == 1) {
    const For* named = std::get_if<For>(&body->front().what);
    if (named == nullptr || !named->extent.is_constant(1)) break;
    collect_periods(named->begin, f.variable, periods);
    body = &named->body;
  }
  return periods;
}

}  // namespace

bool proves_nonnegative(const Expr& e, const Ranges& ranges) {
  ConstantRange r = constant_range(e, ranges);
  if (r.lo && *r.lo >= 0) return true;
  return prove_less(e, 0, ranges) == std::optional<bool>(false);
}
bool proves_negative(const Expr& e, const Ranges& ranges) {
  ConstantRange r = constant_range(e, ranges);
  if (r.hi && *r.hi < 0) return true;
  return prove_less(e, 0, ranges) == std::optional<bool>(true);
}

LoopContext::LoopContext(const Nest& nest) : nest_(nest) {
  for (const Parameter& p : nest.parameters) {
    ranges_.set(p.name, p.lo, p.hi);
    middle_.set(p.name, p.lo / 2 + p.hi / 2);
  }
}

void LoopContext::enter(const For& f) {
  // A single lane keeps its name where it is one of a register's.
  bool lane = f.kind == LoopKind::vector && f.width > 1 && f.extent.is_constant(1) &&
              names_registers(f.body, f.variable);
  ConstantRange value;
  bool named = f.kind == LoopKind::serial && f.extent.is_constant(1) && is_product(f.begin);
  if (named) value = constant_range(f.begin, ranges_);
  if (value.lo && value.hi) {  // what is no sum of multiples keeps its name
    ranges_.set(f.variable, *value.lo, *value.hi);
  } else {
    ranges_.set(f.variable, f.begin, clean(f.begin + (lane ? Expr(1) : f.extent - 1)));
  }
  middle_.enter(f.variable, f.begin, f.extent);
  // Half of a grid's points is a point at its border where an extent is even.
  if (f.kind == LoopKind::parallel) middle_.centre(f.variable, periods_of(f));
}
void LoopContext::leave(const For& f) {
  ranges_.of.erase(f.variable);
  middle_.leave(f.variable);
}

bool LoopContext::names_registers(const Access& a, const std::string& variable) const {
  return nest_.buffers[a.buffer].scope == Scope::registers &&
         std::any_of(a.index.begin(), a.index.end(),
                     [&](const Expr& e) { return uses_variable(e, variable); });
}
bool LoopContext::names_registers(const Block& statements, const std::string& variable) const {
  return std::any_of(statements.begin(), statements.end(), [&](const Statement& s) {
    if (const If* i = std::get_if<If>(&s.what)) {
      return names_registers(i->then, variable) || names_registers(i->otherwise, variable);
    }
    const Store* store = std::get_if<Store>(&s.what);
    return store != nullptr &&
           (names_registers(store->target, variable) ||
            std::any_of(store->loads.begin(), store->loads.end(),
                        [&](const Access& a) { return names_registers(a, variable); }));
  });
}

// Splits a sum into the terms of variables bound inside the region and the rest, which uses none
// of them; false if it is not such a sum.
bool LoopContext::split_terms(const Expr& e, int64_t factor, std::map<std::string, int64_t>& inside,
                              Expr& rest) const {
  switch (e.kind()) {
    case ExprKind::variable:
      if (!inside_.contains(e.name())) break;
      inside[e.name()] = checked_add(inside[e.name()], factor);
      return true;
    case ExprKind::add:
      return std::all_of(e.args().begin(), e.args().end(),
                         [&](const Expr& arg) { return split_terms(arg, factor, inside, rest); });
    case ExprKind::sub:
      return split_terms(e.args()[0], factor, inside, rest) &&
             split_terms(e.args()[1], checked_neg(factor), inside, rest);
    case ExprKind::neg:
      return split_terms(e.args()[0], checked_neg(factor), inside, rest);
    case ExprKind::mul:
      if (e.args().size() == 2 && e.args()[0].is_constant()) {
        return split_terms(e.args()[1], checked_mul(factor, e.args()[0].value()), inside, rest);
      }
      break;
    default:
      break;
  }
  bool outer = std::none_of(inside_.begin(), inside_.end(),
                            [&](const std::string& name) { return uses_variable(e, name); });
  if (outer) rest = rest + Expr(factor) * e;
  return outer;
}
// A bound of a variable in parameters alone.
std::optional<Expr> LoopContext::uniform_bound(const std::string& name, bool low) const {
  auto range = ranges_.of.find(name);
  if (range == ranges_.of.end()) return std::nullopt;
  const std::optional<Expr>& bound = low ? range->second.lo : range->second.hi;
  bool usable = bound && !bound->is_constant() && middle_.uniform(*bound);
  return usable ? bound : std::nullopt;
}
std::optional<Expr> LoopContext::region_minimum(const Expr& e) const {
  std::map<std::string, int64_t> inside;
  Expr rest = 0;
  if (!split_terms(e, 1, inside, rest)) return std::nullopt;
  for (const auto& [name, factor] : inside) {
    if (factor == 0) continue;
    if (std::optional<Expr> bound = uniform_bound(name, factor > 0)) {
      rest = rest + Expr(factor) * *bound;
      continue;
    }
    ConstantRange r = constant_range(Expr::variable(name), ranges_);
    std::optional<int64_t> bound = factor > 0 ? r.lo : r.hi;
    if (!bound) return std::nullopt;
    rest = rest + Expr(checked_mul(factor, *bound));
  }
  return clean(rest);
}
bool LoopContext::enter_counter(const Body& b, const Node& fold) {
  if (fold.expr.kind() != ExprKind::variable) return false;
  Expr begin = bound_of(b, fold.args[0], true), end = bound_of(b, fold.args[1], false);
  ranges_.set(fold.expr.name(), begin, clean(end - 1));
  middle_.enter(fold.expr.name(), begin, end - begin);
  return inside_.insert(fold.expr.name()).second;
}
void LoopContext::leave_counter(const Node& fold, bool fresh) {
  if (fold.expr.kind() != ExprKind::variable) return;
  ranges_.of.erase(fold.expr.name());
  middle_.leave(fold.expr.name());
  if (fresh) inside_.erase(fold.expr.name());
}

}  // namespace tile::nest
