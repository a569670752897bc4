// Bodies of a piece as they stand inside the loops. Integers worked out on indices, counters and
// literals become index expressions, so that loads at them are strided and the partition decides
// their choices; folds keep their regions, with a variable for the counter.
#include "core/lower/context/body_lowering.h"

#include <algorithm>

#include "core/ir/analysis/value_range.h"
#include "core/lower/launch/nest_builders.h"

namespace tile::lowering {
namespace {

bool has_division(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::floor_div:
    case ExprKind::floor_mod:
    case ExprKind::trunc_div:
    case ExprKind::trunc_mod:
    case ExprKind::exact_div:
      return true;
    default:
      return std::any_of(e.args().begin(), e.args().end(), has_division);
  }
}

IdVector<NodeId, bool> needed_nodes(const Body& body, const std::vector<NodeId>& roots) {
  IdVector<NodeId, bool> needed(body.nodes.size());
  for (NodeId id : roots) needed[id] = true;
  for (size_t i = body.nodes.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (NodeId arg : body.nodes[i].args) needed[arg] = true;
  }
  return needed;
}

}  // namespace

Expr bounded_index(const Expr& e, const Expr& extent, Boundary boundary) {
  switch (boundary) {
    case Boundary::in_range:
      return e;
    case Boundary::constant:
    case Boundary::clamp:
      return min(max(e, Expr(0)), tidy(extent - Expr(1)));
    case Boundary::wrap:
      return floor_mod(e, extent);
    case Boundary::mirror: {
      Expr d = floor_mod(select(less(e, Expr(0)), tidy(Expr(-1) - e), e), tidy(Expr(2) * extent));
      return min(d, tidy(Expr(2) * extent - Expr(1) - d));
    }
  }
  return e;
}

void BodyLowering::Copy::add_capture(NodeId id, NodeId argument) {
  captures.push_back(id);
  arguments[id] = argument;
}

BodyLowering::BodyLowering(const LoopContext& outside, Value& into)
    : outside_(outside),
      loads_(into.loads),
      top_{nullptr, nullptr, into.body, {}, 0, 0, {}, {}, {}} {}

NodeId BodyLowering::run(const Body& from, NodeId root) {
  top_.from = &from;
  top_.nodes.assign(from.nodes.size(), {});
  copy_nodes(top_, {root});
  return node(top_, root);
}

std::optional<IndexValue> BodyLowering::index_of(const Body& from, NodeId id) {
  top_.from = &from;
  top_.nodes.assign(from.nodes.size(), {});
  copy_nodes(top_, {id});
  return integer(top_, id);
}

NodeId BodyLowering::run_round(const Body& from, const Node& fold, size_t result,
                               const IndexValue& counter) {
  top_.from = &from;
  top_.nodes.assign(from.nodes.size(), {});
  std::vector<NodeId> captured(fold.args.begin() + fold.slot + 2, fold.args.end());
  copy_nodes(top_, captured);
  Copy inside{&top_, fold.region.get(), top_.into, {}, fold.slot + 1, 0, captured, {}, {}};
  inside.nodes.assign(fold.region->nodes.size(), {});
  inside.counter = counter;
  inside.spliced = true;
  NodeId root = fold.region->results[result];
  copy_nodes(inside, {root});
  return node(inside, root);
}

void BodyLowering::copy_nodes(Copy& c, const std::vector<NodeId>& roots) {
  IdVector<NodeId, bool> needed = needed_nodes(*c.from, roots);
  for (size_t i = 0; i < needed.size(); ++i) {
    if (needed[i]) c.nodes[i] = known(c, c.from->nodes[i]);
  }
}

// What becomes of a node whose operands are known.
BodyLowering::Known BodyLowering::known(Copy& c, const Node& n) {
  if (auto open = outside_.literal(n)) return literal(c, n, *open);
  switch (n.kind) {
    case NodeKind::integer:
      if (auto value = index_literal(n.integer, n.type)) return {NodeId(), value};
      return {c.into.add(n), std::nullopt};
    case NodeKind::index: {
      IndexValue value = outside_.index(IteratorId(n.slot));
      if (fits(value.lo, value.hi, n.type)) return {NodeId(), value};
      return {c.into.size(value.expr, n.type, n.span), std::nullopt};
    }
    case NodeKind::load:
      if (auto value = outside_.scalar(outside_.piece.loads[n.slot].tensor)) {
        return {NodeId(), value};
      }
      return {load(c, n), std::nullopt};
    case NodeKind::operation:
      return operation(c, n);
    case NodeKind::fold:
      if (&n == outside_.known_fold) return {};
      return {fold(c, n), std::nullopt};
    case NodeKind::component:
      if (&(*c.from)[n.args[0]] == outside_.known_fold) {
        return {c.into.load(load_slot(c, outside_.fold_result(n.slot)), n.type), std::nullopt};
      }
      return {operation_node(c, n), std::nullopt};
    case NodeKind::argument:
      return argument(c, n);
    default:
      return {operation_node(c, n), std::nullopt};
  }
}

// One that launches decide, of an integer or a real type.
BodyLowering::Known BodyLowering::literal(Copy& c, const Node& n, const IndexValue& value) {
  if (is_float(n.type)) {
    DType type = fits(value.lo, value.hi, DType::i32) ? DType::i32 : DType::i64;
    return {c.into.cast(c.into.size(value.expr, type, n.span), n.type, n.span), std::nullopt};
  }
  if (fits(value.lo, value.hi, n.type)) return {NodeId(), value};
  return {c.into.size(value.expr, n.type, n.span), std::nullopt};
}

BodyLowering::Known BodyLowering::operation(Copy& c, const Node& n) {
  std::vector<IndexValue> operands;
  for (NodeId arg : n.args) {
    const Known& k = c.nodes[arg];
    if (k.integer) operands.push_back(*k.integer);
  }
  if (operands.size() == n.args.size()) {
    if (auto value = index_operation(n.op, n.type, operands)) return {NodeId(), value};
  }
  return {operation_node(c, n), std::nullopt};
}

NodeId BodyLowering::operation_node(Copy& c, const Node& n) {
  Node copy = n;
  for (NodeId& arg : copy.args) arg = node(c, arg);
  return c.into.add(std::move(copy));
}

// The node in the copy. Quotients and remainders that are values stay operations of their own type:
// lanes divide faster in 32 bits.
NodeId BodyLowering::node(Copy& c, NodeId id) {
  Known& k = c.nodes[id];
  if (k.copy.valid()) return k.copy;
  internal_check(k.integer.has_value(), "lower: a node used before it is known");
  const Node& n = (*c.from)[id];
  const Expr& e = k.integer->expr;
  NodeId made;
  if (e.is_constant()) {
    made = c.into.integer(e.value(), n.type, n.span);
  } else if (n.kind == NodeKind::operation && has_division(e)) {
    made = operation_node(c, n);
  } else {
    made = c.into.size(e, n.type, n.span);
  }
  c.nodes[id].copy = made;
  return made;
}

// An index expression that an operand of a load is; nullopt: it is a value.
std::optional<IndexValue> BodyLowering::integer(const Copy& c, NodeId id) const {
  return c.nodes[id].integer;
}

NodeId BodyLowering::capture(Copy& c, NodeId id) {
  if (c.spliced) return id;
  auto found = c.arguments.find(id);
  if (found != c.arguments.end()) return found->second;
  size_t slot = c.captures.size() + c.own;
  NodeId argument = c.into.argument(slot, c.parent->into[id].type);
  c.add_capture(id, argument);
  return argument;
}

// A node of the outermost copy, as the region sees it.
NodeId BodyLowering::from_top(Copy& c, NodeId id) {
  return c.parent == nullptr ? id : capture(c, from_top(*c.parent, id));
}

BodyLowering::Known BodyLowering::argument(Copy& c, const Node& n) {
  if (n.slot == 0) {
    if (fits(c.counter->lo, c.counter->hi, n.type)) return {NodeId(), c.counter};
    return {c.into.argument(0, n.type, n.span), std::nullopt};
  }
  if (n.slot < c.own) return {c.into.argument(n.slot, n.type, n.span), std::nullopt};
  NodeId outer = c.captured_from[n.slot - c.own];
  if (auto value = integer(*c.parent, outer)) return {NodeId(), value};
  return {capture(c, node(*c.parent, outer)), std::nullopt};
}

NodeId BodyLowering::fold(Copy& c, const Node& n) {
  Node copy = n;
  for (size_t i = 0; i < n.slot + 2; ++i) copy.args[i] = node(c, n.args[i]);
  size_t own = n.slot + 1;
  Body body;
  Copy inside{&c, n.region.get(), body, {}, own, c.depth + 1, {}, {}, {}};
  inside.nodes.assign(n.region->nodes.size(), {});
  inside.captured_from.assign(n.args.begin() + static_cast<std::ptrdiff_t>(own + 1), n.args.end());
  copy.expr = Expr::variable("turn" + std::to_string(inside.depth));
  auto first = integer(c, n.args[0]), end = integer(c, n.args[1]);
  IndexValue counter{copy.expr, first ? first->lo : value_range(c.into, copy.args[0]).lo,
                     (end ? end->hi : value_range(c.into, copy.args[1]).hi) - 1, 1};
  counter.hi = std::max(counter.lo, counter.hi);
  inside.counter = counter;
  copy_nodes(inside, n.region->results);
  for (NodeId r : n.region->results) body.results.push_back(node(inside, r));
  copy.args.resize(own + 1);
  copy.args.insert(copy.args.end(), inside.captures.begin(), inside.captures.end());
  copy.region = std::make_shared<const Body>(std::move(body));
  return c.into.add(std::move(copy));
}

namespace {

// The boundary rule on a value, by operations.
NodeId bounded_value(Body& body, NodeId value, int64_t extent, Boundary boundary) {
  DType wide = compute_type(body[value].type);
  NodeId v = body.cast(value, wide);
  auto number = [&](int64_t n) { return body.integer(n, wide); };
  auto apply = [&](Op op, NodeId a, NodeId b) { return body.operation(op, {a, b}, wide); };
  auto negative = [&](NodeId a) { return body.operation(Op::lt, {a, number(0)}, DType::bool_); };
  auto choose = [&](NodeId c, NodeId a, NodeId b) {
    return body.operation(Op::select, {c, a, b}, wide);
  };
  if (boundary == Boundary::wrap) {
    NodeId r = apply(Op::mod, v, number(extent));
    return choose(negative(r), apply(Op::add, r, number(extent)), r);
  }
  if (boundary == Boundary::mirror) {
    NodeId d = choose(negative(v), apply(Op::sub, number(-1), v), v);
    d = apply(Op::mod, d, number(2 * extent));
    return apply(Op::min, d, apply(Op::sub, number(2 * extent - 1), d));
  }
  v = apply(Op::max, v, number(0));
  return apply(Op::min, v, number(extent - 1));
}

NodeId inside_value(Body& body, NodeId value, int64_t extent) {
  DType wide = compute_type(body[value].type);
  NodeId v = body.cast(value, wide);
  NodeId low = body.operation(Op::ge, {v, body.integer(0, wide)}, DType::bool_);
  NodeId high = body.operation(Op::lt, {v, body.integer(extent, wide)}, DType::bool_);
  return body.operation(Op::logical_and, {low, high}, DType::bool_);
}

Expr inside_expression(const Expr& e, const Expr& extent) {
  return (Expr(1) - less(e, Expr(0))) * less(e, extent);
}

NodeId zero_of(Body& body, DType type) {
  return is_float(type) ? body.real(0, type) : body.integer(0, type);
}

}  // namespace

NodeId BodyLowering::load(Copy& c, const Node& n) {
  const tile::Access& access = outside_.piece.loads[n.slot];
  if (outside_.replacement) {
    Value at_top{std::move(top_.into), std::move(loads_)};
    NodeId made = outside_.replacement(at_top, access.tensor);
    top_.into = std::move(at_top.body);
    loads_ = std::move(at_top.loads);
    if (made.valid()) return from_top(c, made);
  }
  if (auto packed = outside_.packed(n.slot)) {
    Node read = n;
    read.slot = load_slot(c, std::move(*packed));
    return c.into.add(std::move(read));
  }
  return read_element(c, n, access);
}

// A load of memory, or zero outside the dimensions whose boundary rule is `constant`.
NodeId BodyLowering::read_element(Copy& c, const Node& n, const tile::Access& access) {
  const Shape& shape = outside_.shape(access.tensor);
  if (element_count(shape) == 0) return zero_of(c.into, n.type);
  nest::Access to;
  to.buffer = outside_.buffer(access.tensor);
  Node read = n;
  read.args.clear();
  Expr inside = 1;
  std::vector<NodeId> conditions;
  for (size_t d = 0; d < access.index.size(); ++d) {
    const Index& index = access.index[d];
    std::optional<IndexValue> e;
    NodeId operand = index.value < 0 ? NodeId() : n.args[static_cast<size_t>(index.value)];
    if (operand.valid()) e = integer(c, operand);
    if (!operand.valid() || e) {
      Expr form = operand.valid() ? tidy(e->expr) : outside_.value(index.affine);
      bool proved = !operand.valid() || (e->lo >= 0 && e->hi < shape[d]);
      Boundary rule = index.boundary;
      if (rule == Boundary::in_range && !proved) rule = Boundary::clamp;
      Expr extent = outside_.extent(access.tensor, d);
      to.index.push_back(bounded_index(form, extent, rule));
      if (rule == Boundary::constant) inside = inside * inside_expression(form, extent);
      continue;
    }
    NodeId value = node(c, operand);
    if (index.boundary == Boundary::constant) {
      conditions.push_back(inside_value(c.into, value, shape[d]));
    }
    to.values.resize(access.index.size(), -1);
    to.values[d] = static_cast<int>(read.args.size());
    to.index.emplace_back(0);
    read.args.push_back(bounded_value(c.into, value, shape[d], index.boundary));
  }
  if (inside.is_constant(0)) return zero_of(c.into, n.type);
  outside_.place(access.tensor, to);
  read.slot = load_slot(c, std::move(to));
  NodeId element = c.into.add(std::move(read));
  if (!inside.is_constant()) conditions.push_back(c.into.size(inside, DType::bool_));
  if (conditions.empty()) return element;
  DType wide = compute_type(n.type);
  element = c.into.cast(element, wide);
  for (NodeId condition : conditions) {
    NodeId zero = zero_of(c.into, wide);
    element = c.into.operation(Op::select, {condition, element, zero}, wide);
  }
  return c.into.cast(element, n.type);
}

// Equal accesses share a slot, so that their loads are one node; not those of a fold's region,
// whose counter has its own range.
size_t BodyLowering::load_slot(const Copy& c, nest::Access access) {
  auto same = [&](const nest::Access& a) {
    return c.depth == 0 && a.buffer == access.buffer && a.index == access.index &&
           a.values == access.values;
  };
  size_t slot = 0;
  while (slot < loads_.size() && !same(loads_[slot])) ++slot;
  if (slot == loads_.size()) loads_.push_back(std::move(access));
  return slot;
}

}  // namespace tile::lowering
