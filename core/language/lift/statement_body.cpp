#include "core/language/lift/statement_body.h"

#include <algorithm>

#include "core/language/lift/boundaries.h"
#include "core/language/lift/lower.h"

namespace tile::lift {
namespace {

// Indices below this bound keep shifts and products of sizes apart from data.
bool is_loop_name(const std::string& name) { return name[0] == '$'; }

bool has_selection(const Expr& e) {
  bool own = e.kind() == ExprKind::min || e.kind() == ExprKind::max ||
             e.kind() == ExprKind::select || e.kind() == ExprKind::floor_mod ||
             e.kind() == ExprKind::less || e.kind() == ExprKind::equal;
  return own || std::any_of(e.args().begin(), e.args().end(), has_selection);
}

// Whether an index of a dimension of this length, clamped, is the one that the guard tests.
bool takes_over(const Scalar& guard, const BoundedIndex& index, const Expr& length) {
  return index.kind == Boundary::clamp && index.raw == guard.exprs[0] && length == guard.exprs[1];
}

}  // namespace

StatementBody::StatementBody(Context& context, const std::map<std::string, LoopIndex>& loops,
                             std::vector<SymbolicAccess>& accesses)
    : context_(context), loops_(loops), accesses_(accesses) {
  for (const auto& [variable, loop] : loops) names_.emplace(variable, loop.name);
}

void StatementBody::add_result(const ScalarPtr& s) { root_.body.results.push_back(emit(s, root_)); }

Body StatementBody::finish() && { return tidied(root_.body); }

// Whether a value can only be computed inside the region: it uses the counter or a carried value.
bool StatementBody::needs_region(const Scalar& s, const Region& region) const {
  if (s.open.contains(region.fold->id)) return true;
  for (const std::string& name : s.free) {
    if (name == region.fold->variable) return true;
    if (context_.is_data(name) && needs_region(*context_.data(name), region)) return true;
  }
  return false;
}

NodeId StatementBody::emit(const ScalarPtr& s, Region& region) {
  auto known = region.done.find(s.get());
  if (known != region.done.end()) return known->second;
  bool cheap = s->kind == ScalarKind::integer || s->kind == ScalarKind::real;
  bool outside = region.outer != nullptr && !cheap && !needs_region(*s, region);
  NodeId id = outside ? capture(emit(s, *region.outer), s->type, region) : emit_new(s, region);
  region.done.emplace(s.get(), id);
  return id;
}

NodeId StatementBody::capture(NodeId outer, DType type, Region& region) {
  auto known = region.arguments.find(outer);
  if (known != region.arguments.end()) return known->second;
  Node node;
  node.kind = NodeKind::argument;
  node.type = type;
  node.slot = 1 + static_cast<int>(region.fold->args.size() / 2 + region.captured.size());
  region.captured.push_back(outer);
  NodeId id = region.body.add(std::move(node));
  region.arguments.emplace(outer, id);
  return id;
}

NodeId StatementBody::literal(const Scalar& s, Region& region) const {
  if (s.type == DType::f32)
    return region.body.real(s.kind == ScalarKind::real ? s.real : static_cast<double>(s.integer),
                            DType::f32, s.span);
  return region.body.integer(s.integer, s.type, s.span);
}

NodeId StatementBody::emit_new(const ScalarPtr& s, Region& region) {
  switch (s->kind) {
    case ScalarKind::integer:
    case ScalarKind::real:
      return literal(*s, region);
    case ScalarKind::index: {
      Expr e = context_.tidy(s->exprs[0]);
      if (s->type == DType::bool_) return condition(e, region);
      return region.body.cast(number(e, region), s->type, s->span);
    }
    case ScalarKind::load:
      return emit_load(*s, region, {});
    case ScalarKind::operation:
      return emit_operation(*s, region);
    case ScalarKind::guard:
      return emit_guard(s, region);
    case ScalarKind::carried:
      return carried(*s, region);
    case ScalarKind::reduce:
      return emit_reduction(s, region);
    case ScalarKind::fold:
      return emit_fold(*s, region);
    case ScalarKind::component: {
      Node node;
      node.kind = NodeKind::component;
      node.type = s->type;
      node.slot = s->slot;
      node.args = {emit(s->args[0], region)};
      return region.body.add(std::move(node));
    }
  }
  throw InternalError("lift: a scalar of no kind");
}

NodeId StatementBody::emit_operation(const Scalar& s, Region& region) {
  std::vector<NodeId> args;
  for (const ScalarPtr& arg : s.args) args.push_back(emit(arg, region));
  return region.body.operation(s.op, std::move(args), s.type, s.span);
}

NodeId StatementBody::carried(const Scalar& s, Region& region) {
  internal_check(region.fold != nullptr && region.fold->id == s.id, "lift: a stray carried value");
  Node node;
  node.kind = NodeKind::argument;
  node.type = s.type;
  node.slot = 1 + s.slot;
  return region.body.add(std::move(node));
}

// A reduction inside a larger value gets a tensor over the loops that it depends on.
NodeId StatementBody::emit_reduction(const ScalarPtr& s, Region& region) {
  std::set<std::string> depends = context_.loop_variables(*s);
  std::vector<std::pair<int, Expr>> ordered;
  for (const std::string& variable : depends) {
    auto found = loops_.find(variable);
    int slot = found == loops_.end() ? static_cast<int>(loops_.size()) : found->second.slot;
    ordered.emplace_back(slot, Expr::variable(variable));
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Expr> dims;
  for (auto& [slot, variable] : ordered) dims.push_back(std::move(variable));
  Scalar load;
  load.kind = ScalarKind::load;
  load.type = s->type;
  load.tensor = context_.assign(s, dims, context_.temporary_name(), s->span);
  load.exprs = dims;
  load.span = s->span;
  return emit(make_scalar(std::move(load)), region);
}

// Loads.

Expr StatementBody::renamed(const Expr& e) const { return substitute(e, names_); }

// Whether an access can hold the expression: it depends on the statement's indices and sizes alone.
bool StatementBody::indices_only(const Expr& e) const {
  std::vector<std::string> used;
  collect_variables(e, used);
  return std::all_of(used.begin(), used.end(), [&](const std::string& name) {
    return !is_loop_name(name) || loops_.contains(name);
  });
}

int StatementBody::access_slot(SymbolicAccess access) {
  std::string key = to_string(access.tensor);
  for (size_t d = 0; d < access.index.size(); ++d) {
    key += "|" + to_string(access.index[d]) + "@" + std::to_string(access.values[d]) + "#" +
           std::to_string(static_cast<int>(access.boundary[d]));
  }
  auto [found, fresh] = slots_.emplace(key, static_cast<int>(accesses_.size()));
  if (fresh) accesses_.push_back(std::move(access));
  return found->second;
}

// `guards`: conditions of a constant boundary that the load may take over as Boundary::constant.
NodeId StatementBody::emit_load(const Scalar& s, Region& region,
                                const std::vector<const Scalar*>& guards) {
  const std::vector<Expr>& shape = context_.shapes[s.tensor];
  SymbolicAccess access;
  access.tensor = s.tensor;
  access.span = s.span;
  Node node;
  node.kind = NodeKind::load;
  node.type = s.type;
  node.span = s.span;
  for (size_t d = 0; d < s.exprs.size(); ++d) {
    Expr index = context_.tidy(s.exprs[d]);
    Boundary boundary = Boundary::in_range;
    std::optional<BoundedIndex> bounded = find_bounded_index(s.exprs[d], shape[d]);
    bool data = !indices_only(index) && !context_.in_range(index, shape[d]);
    // Of a length of one the clamp is the constant 0: the rule is the guard's, whatever the index
    // became.
    bool guarded = bounded && std::any_of(guards.begin(), guards.end(), [&](const Scalar* guard) {
                     return takes_over(*guard, *bounded, shape[d]);
                   });
    if (guarded) {
      boundary = Boundary::constant;
      index = context_.tidy(bounded->raw);
    } else if (bounded && has_selection(index)) {
      boundary = bounded->kind;
      index = context_.tidy(bounded->raw);
    } else if (data) {
      boundary = Boundary::clamp;
    }
    bool held = indices_only(index);
    access.index.push_back(held ? renamed(index) : Expr(0));
    access.values.push_back(held ? -1 : static_cast<int>(node.args.size()));
    access.boundary.push_back(boundary);
    if (!held) node.args.push_back(number(index, region));
  }
  node.slot = access_slot(std::move(access));
  return region.body.add(std::move(node));
}

// Guards of an element read from a tensor with 0 outside are the load's own boundary rule.
NodeId StatementBody::emit_guard(const ScalarPtr& s, Region& region) {
  std::vector<const Scalar*> guards;
  const Scalar* inner = s.get();
  bool zero = true;
  while (inner->kind == ScalarKind::guard) {
    const Scalar& outside = *inner->args[1];
    zero = zero && ((outside.kind == ScalarKind::real && outside.real == 0) ||
                    (outside.kind == ScalarKind::integer && outside.integer == 0));
    guards.push_back(inner);
    inner = inner->args[0].get();
  }
  if (zero && inner->kind == ScalarKind::load) {
    const std::vector<Expr>& shape = context_.shapes[inner->tensor];
    bool all = std::all_of(guards.begin(), guards.end(), [&](const Scalar* guard) {
      for (size_t d = 0; d < shape.size(); ++d) {
        std::optional<BoundedIndex> bounded = find_bounded_index(inner->exprs[d], shape[d]);
        if (bounded && takes_over(*guard, *bounded, shape[d])) return true;
      }
      return context_.in_range(guard->exprs[0], guard->exprs[1]);
    });
    if (all) return emit_load(*inner, region, guards);
  }
  Expr inside = context_.tidy(less(-1, s->exprs[0]) * less(s->exprs[0], s->exprs[1]));
  if (inside.is_constant()) return emit(s->args[inside.value() != 0 ? 0 : 1], region);
  NodeId test = condition(inside, region);
  NodeId value = emit(s->args[0], region), outside = emit(s->args[1], region);
  return region.body.operation(Op::select, {test, value, outside}, s->type, s->span);
}

// Folds.

NodeId StatementBody::emit_fold(const Scalar& s, Region& region) {
  size_t count = s.args.size() / 2;
  Region inner;
  inner.outer = &region;
  inner.fold = &s;
  std::vector<NodeId> starts;
  for (size_t k = 0; k < count; ++k) starts.push_back(emit(s.args[k], region));
  for (size_t k = 0; k < count; ++k) inner.body.results.push_back(emit(s.args[count + k], inner));
  Node node;
  node.kind = NodeKind::fold;
  node.slot = count;
  node.args = {region.body.integer(0, DType::i64), number(context_.tidy(s.exprs[0]), region)};
  node.args.insert(node.args.end(), starts.begin(), starts.end());
  node.args.insert(node.args.end(), inner.captured.begin(), inner.captured.end());
  node.region = std::make_shared<const Body>(std::move(inner.body));
  node.span = s.span;
  return region.body.add(std::move(node));
}

// Index expressions as 64-bit nodes.

NodeId StatementBody::variable(const std::string& name, Region& region) {
  if (!is_loop_name(name)) return region.body.size(Expr::variable(name), DType::i64);
  if (context_.is_data(name)) {
    return region.body.cast(emit(context_.data(name), region), DType::i64);
  }
  auto found = loops_.find(name);
  if (found != loops_.end()) return region.body.index(found->second.slot, DType::i64);
  internal_check(region.fold != nullptr, "lift: a loop variable outside its loop");
  if (region.fold->variable != name) {
    return capture(variable(name, *region.outer), DType::i64, region);
  }
  Node node;
  node.kind = NodeKind::argument;
  node.type = DType::i64;
  node.slot = 0;
  return region.body.add(std::move(node));
}

NodeId StatementBody::number(const Expr& e, Region& region) {
  if (e.is_constant()) return region.body.integer(e.value(), DType::i64);
  std::vector<std::string> used;
  collect_variables(e, used);
  bool size = std::none_of(used.begin(), used.end(), is_loop_name);
  return size ? region.body.size(e, DType::i64) : number_of(e, region);
}

NodeId StatementBody::chain(Op op, const Expr& e, Region& region) {
  NodeId result = number(e.args()[0], region);
  for (size_t i = 1; i < e.args().size(); ++i) {
    result = region.body.operation(op, {result, number(e.args()[i], region)}, DType::i64);
  }
  return result;
}

// Division rounds down by way of the rounding toward zero that nodes have.
NodeId StatementBody::quotient(const Expr& e, Region& region) {
  const Expr &a = e.args()[0], &b = e.args()[1];
  bool rounds_down = e.kind() == ExprKind::floor_div || e.kind() == ExprKind::floor_mod;
  bool modulo = e.kind() == ExprKind::floor_mod || e.kind() == ExprKind::trunc_mod;
  if (!rounds_down || (context_.at_least(a, 0) && context_.at_least(b, 1))) {
    return chain(modulo ? Op::mod : Op::div, e, region);
  }
  // r = a % b has the sign of a; a remainder of another sign than b's moves by b.
  Expr r = trunc_mod(a, b), wrong = less(r * b, 0);
  if (modulo) return number(select(wrong, r + b, r), region);
  return number(select(wrong, trunc_div(a, b) - 1, trunc_div(a, b)), region);
}

NodeId StatementBody::number_of(const Expr& e, Region& region) {
  switch (e.kind()) {
    case ExprKind::variable:
      return variable(e.name(), region);
    case ExprKind::add:
      return chain(Op::add, e, region);
    case ExprKind::sub:
      return chain(Op::sub, e, region);
    case ExprKind::mul:
      return chain(Op::mul, e, region);
    case ExprKind::min:
      return chain(Op::min, e, region);
    case ExprKind::max:
      return chain(Op::max, e, region);
    case ExprKind::neg:
      return region.body.operation(Op::neg, {number(e.args()[0], region)}, DType::i64);
    case ExprKind::exact_div:
    case ExprKind::trunc_div:
    case ExprKind::trunc_mod:
    case ExprKind::floor_div:
    case ExprKind::floor_mod:
      return quotient(e, region);
    case ExprKind::less:
    case ExprKind::equal:
      return region.body.cast(condition(e, region), DType::i64);
    case ExprKind::select: {
      NodeId test = condition(e.args()[0], region);
      NodeId a = number(e.args()[1], region), b = number(e.args()[2], region);
      return region.body.operation(Op::select, {test, a, b}, DType::i64);
    }
    case ExprKind::constant:
      break;
  }
  return region.body.integer(e.value(), DType::i64);
}

NodeId StatementBody::condition(const Expr& e, Region& region) {
  bool compares = e.kind() == ExprKind::less || e.kind() == ExprKind::equal;
  if (compares) {
    NodeId a = number(e.args()[0], region), b = number(e.args()[1], region);
    return region.body.operation(e.kind() == ExprKind::less ? Op::lt : Op::eq, {a, b},
                                 DType::bool_);
  }
  bool conjunction = e.kind() == ExprKind::mul &&
                     std::all_of(e.args().begin(), e.args().end(), [](const Expr& arg) {
                       return arg.kind() == ExprKind::less || arg.kind() == ExprKind::equal;
                     });
  if (conjunction) {
    NodeId result = condition(e.args()[0], region);
    for (size_t i = 1; i < e.args().size(); ++i) {
      result = region.body.operation(Op::logical_and, {result, condition(e.args()[i], region)},
                                     DType::bool_);
    }
    return result;
  }
  NodeId value = number(e, region), zero = region.body.integer(0, DType::i64);
  return region.body.operation(Op::ne, {value, zero}, DType::bool_);
}

}  // namespace tile::lift
