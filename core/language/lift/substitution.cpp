#include "core/language/lift/substitution.h"

#include "core/language/lift/boundaries.h"

namespace tile::lift {

bool Substituter::touches(const std::string& variable) {
  if (by_.indices.contains(variable)) return true;
  if (!context_.is_data(variable)) return false;
  auto found = touched_.find(variable);
  if (found != touched_.end()) return found->second;
  bool result = touches(*context_.data(variable));
  touched_.emplace(variable, result);
  return result;
}

bool Substituter::touches(const Scalar& s) {
  if (by_.id >= 0 && s.open.contains(by_.id)) return true;
  for (const std::string& name : s.free) {
    if (touches(name)) return true;
  }
  return false;
}

Expr Substituter::expression(const Expr& e) {
  if (e.kind() == ExprKind::variable) {
    auto found = by_.indices.find(e.name());
    if (found != by_.indices.end()) return found->second;
    if (!context_.is_data(e.name()) || !touches(e.name())) return e;
    auto known = data_.find(e.name());
    if (known != data_.end()) return known->second;
    Expr fresh = context_.data_index(scalar(context_.data(e.name())));
    data_.emplace(e.name(), fresh);
    return fresh;
  }
  if (e.args().empty()) return e;
  auto known = expressions_.find(e.node());
  if (known != expressions_.end()) return known->second;
  if (is_wrapped(e)) {
    Expr wrapped = wrap_index(expression(e.args()[0].args()[0]), expression(e.args()[1]));
    expressions_.emplace(e.node(), wrapped);
    return wrapped;
  }
  bool changed = false;
  std::vector<Expr> args;
  for (const Expr& arg : e.args()) {
    args.push_back(expression(arg));
    changed = changed || args.back().node() != arg.node();
  }
  Expr result = changed ? build(e.kind(), args) : e;
  expressions_.emplace(e.node(), result);
  return result;
}

ScalarPtr Substituter::scalar(const ScalarPtr& s) {
  if (!touches(*s)) return s;
  auto known = done_.find(s.get());
  if (known != done_.end()) return known->second;
  ScalarPtr result = rebuilt(*s);
  done_.emplace(s.get(), result);
  return result;
}

ScalarPtr Substituter::rebuilt(const Scalar& s) {
  if (s.kind == ScalarKind::carried && s.id == by_.id) {
    return by_.carried.at(static_cast<size_t>(s.slot));
  }
  Scalar node = s;
  node.free.clear();
  node.open.clear();
  node.depth = 1;
  for (ScalarPtr& arg : node.args) arg = scalar(arg);
  for (Expr& e : node.exprs) e = expression(e);
  if (s.kind == ScalarKind::index) return index_scalar(node.exprs[0], s.type);
  bool chosen = s.kind == ScalarKind::operation && s.op == Op::select && is_index(*node.args[0]) &&
                expr_of(*node.args[0]).is_constant();
  if (chosen) return node.args[expr_of(*node.args[0]).value() != 0 ? 1 : 2];
  return make_scalar(std::move(node));
}

}  // namespace tile::lift
