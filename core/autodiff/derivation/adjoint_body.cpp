#include "core/autodiff/derivation/adjoint_body.h"

#include <algorithm>
#include <array>

#include "core/ir/scalar.h"
#include "core/language/tile/tile.h"

namespace tile {

AdjointBody::AdjointBody(const Body& forward, int result_slot)
    : body(forward),
      forward_count_(forward.nodes.size()),
      results_(forward.results),
      result_slot_(result_slot) {
  body.results.clear();
}

bool AdjointBody::is_literal(NodeId id) const {
  const Node& n = body[id];
  return n.kind == NodeKind::integer || n.kind == NodeKind::real;
}

bool AdjointBody::is_literal(NodeId id, double value) const {
  const Node& n = body[id];
  if (n.kind == NodeKind::integer) return static_cast<double>(n.integer) == value;
  return n.kind == NodeKind::real && n.real == value;
}

// Exact arithmetic and decisions only, so that folding never rounds.
NodeId AdjointBody::fold_literals(Op op, const std::vector<NodeId>& args) {
  bool real = false;
  std::vector<Scalar> values;
  for (NodeId id : args) {
    const Node& n = body[id];
    if (!is_literal(id) || n.type != DType::none) return NodeId();
    real = real || n.kind == NodeKind::real;
    values.push_back(n.kind == NodeKind::real ? real_scalar(n.real, DType::f64)
                                              : integer_scalar(n.integer, DType::i64));
  }
  bool sums = op == Op::neg || op == Op::add || op == Op::sub;
  bool decides = info(op).rule == TypeRule::comparison || op == Op::isnan;
  if (!sums && !decides) return NodeId();
  DType type = real || op == Op::isnan ? DType::f64 : DType::i64;
  for (Scalar& v : values) v = convert(v, type);
  Scalar folded = evaluate(op, decides ? DType::bool_ : type, values);
  return is_float(folded.type) ? body.real(folded.f) : body.integer(folded.i);
}

NodeId AdjointBody::fold_neutral(Op op, const std::vector<NodeId>& args) {
  switch (op) {
    case Op::select:
      if (is_literal(args[0])) return is_literal(args[0], 0) ? args[2] : args[1];
      if (is_literal(args[1], 0) && is_literal(args[2], 0)) return args[1];
      return args[1] == args[2] ? args[1] : NodeId();
    case Op::logical_and:
    case Op::logical_or: {
      bool any = op == Op::logical_or;
      for (size_t i = 0; i < 2; ++i) {
        if (!is_literal(args[i])) continue;
        bool decides = is_literal(args[i], 0) != any;
        return decides ? body.integer(any ? 1 : 0) : args[1 - i];
      }
      return NodeId();
    }
    case Op::pow:
      if (is_literal(args[1], 1)) return args[0];
      return is_literal(args[1], 0) ? body.integer(1) : NodeId();
    case Op::mul:
      if (is_literal(args[1], 1)) return args[0];
      return is_literal(args[0], 1) ? args[1] : NodeId();
    case Op::div:
      return is_literal(args[1], 1) ? args[0] : NodeId();
    case Op::neg:
      if (body[args[0]].kind == NodeKind::operation && body[args[0]].op == Op::neg) {
        return body[args[0]].args[0];
      }
      return NodeId();
    default:
      return NodeId();
  }
}

NodeId AdjointBody::operation(Op op, std::vector<NodeId> args, Span span) {
  NodeId folded = fold_literals(op, args);
  if (!folded.valid()) folded = fold_neutral(op, args);
  return folded.valid() ? folded : body.operation(op, std::move(args), DType::none, span);
}

// Once for each two nodes: arms of selects may be shared on every level.
NodeId AdjointBody::times(NodeId a, NodeId b) {
  if (!a.valid() || !b.valid()) return NodeId();
  auto known = products_.find({a, b});
  if (known != products_.end()) return known->second;
  NodeId product = product_of(a, b);
  products_.emplace(std::pair{a, b}, product);
  return product;
}

NodeId AdjointBody::product_of(NodeId a, NodeId b) {
  if (is_literal(b, 1)) return a;
  if (is_literal(a, 1)) return b;
  if (is_literal(b, 0) || is_literal(a, 0)) return body.integer(0);
  if (is_literal(b, -1)) return operation(Op::neg, {a});
  Node n = body[b];
  if (n.kind == NodeKind::operation && n.op == Op::select) {
    NodeId then = times(a, n.args[1]);
    NodeId otherwise = times(a, n.args[2]);
    return operation(Op::select, {n.args[0], then, otherwise}, n.span);
  }
  Node m = body[a];
  if (m.kind == NodeKind::operation && m.op == Op::select &&
      (is_literal(m.args[1], 0) || is_literal(m.args[2], 0))) {
    NodeId then = times(m.args[1], b);
    NodeId otherwise = times(m.args[2], b);
    return operation(Op::select, {m.args[0], then, otherwise}, m.span);
  }
  // The user's own factor stays whole: it may be a quotient or a product of integers.
  bool derived = b >= NodeId(forward_count_);
  // adjoint * (1 / y) and adjoint * (p / y) read better as divisions.
  if (derived && n.kind == NodeKind::operation && n.op == Op::div) {
    return operation(Op::div, {times(a, n.args[0]), n.args[1]}, n.span);
  }
  if (derived && n.kind == NodeKind::operation && n.op == Op::mul && is_literal(n.args[0])) {
    return operation(Op::mul, {times(a, n.args[0]), n.args[1]}, n.span);
  }
  return operation(Op::mul, {a, b});
}

NodeId AdjointBody::plus(NodeId a, NodeId b) {
  if (!a.valid() || is_literal(a, 0)) return b;
  if (!b.valid() || is_literal(b, 0)) return a;
  const Node &x = body[a], &y = body[b];
  bool twice = x.kind == NodeKind::operation && y.kind == NodeKind::operation && x.op == y.op &&
               x.type == y.type && x.args == y.args;
  if (twice || a == b) return operation(Op::mul, {a, body.integer(2)});
  return operation(Op::add, {a, b});
}

NodeId AdjointBody::local(NodeId id, size_t operand) {
  const Node node = body[id];
  const OpInfo& row = info(node.op);
  if (node.op == Op::cast && !is_float(node.type)) return NodeId();
  if (operand >= row.derivatives.size() || row.derivatives[operand].empty()) return NodeId();
  constexpr std::array<std::string_view, 4> kNames{"X", "Y", "Z", "R"};
  Body text = parse_scalar_expression(row.derivatives[operand], kNames);
  IdVector<NodeId, NodeId> copy;
  for (const Node& n : text.nodes) {
    if (n.kind == NodeKind::operation) {
      std::vector<NodeId> args;
      for (NodeId arg : n.args) args.push_back(copy[arg]);
      copy.push_back(operation(n.op, std::move(args), node.span));
    } else if (n.kind != NodeKind::load) {
      copy.push_back(body.add(n));
    } else if (n.slot < 3) {
      copy.push_back(node.args.at(std::min(n.slot, node.args.size() - 1)));
    } else {
      copy.push_back(id == result() && result_slot_ >= 0 ? body.load(result_slot_) : id);
    }
  }
  return copy[text.results[0]];
}

IdVector<NodeId, bool> AdjointBody::depends_on(size_t slot) const {
  IdVector<NodeId, bool> depends(forward_count_, false);
  for (size_t i = 0; i < forward_count_; ++i) {
    const Node& n = body.nodes[i];
    depends[i] = n.kind == NodeKind::load && n.slot == slot;
    for (NodeId arg : n.args) depends[i] = depends[i] || depends[arg];
  }
  return depends;
}

NodeId AdjointBody::derivative(size_t slot, const std::vector<NodeId>& seeds) {
  IdVector<NodeId, bool> depends = depends_on(slot);
  IdVector<NodeId, NodeId> adjoint(forward_count_);
  for (size_t c = 0; c < results_.size(); ++c) {
    NodeId& at = adjoint[results_[c]];
    if (depends[results_[c]]) at = plus(at, seeds.at(c));
  }
  NodeId total;
  for (size_t i = forward_count_; i-- > 0;) {
    if (!adjoint[i].valid() || !depends[i]) continue;
    const Node node = body.nodes[i];
    if (node.kind == NodeKind::load) {
      if (node.slot == slot) total = plus(total, adjoint[i]);  // else an index made of the slot's
      continue;
    }
    for (size_t k = 0; k < node.args.size(); ++k) {
      NodeId arg = node.args[k];
      if (!depends[arg]) continue;
      NodeId factor = local(NodeId(i), k);
      if (!factor.valid()) continue;
      NodeId part = times(adjoint[i], factor);
      // The adjoint of a value has the value's type.
      if (node.op == Op::cast) part = body.operation(Op::cast_like, {part, node.args[k]});
      adjoint[arg] = plus(adjoint[arg], part);
    }
  }
  return !total.valid() || is_literal(total, 0) ? NodeId() : total;
}

Body finished(Body body, NodeId result) {
  body.results = {result};
  return tidied(body);
}

}  // namespace tile
