#include "core/passes/gradient/adjoint_body.h"

#include <array>

#include "core/language/tile/tile.h"

namespace tile {

AdjointBody::AdjointBody(const Body& forward)
    : body(forward), forward_count_(forward.nodes.size()), result_(forward.results[0]) {
  body.results.clear();
}

bool AdjointBody::is_literal(NodeId id, double value) const {
  const Node& n = body[id];
  if (n.kind == NodeKind::integer) return static_cast<double>(n.integer) == value;
  return n.kind == NodeKind::real && n.real == value;
}

NodeId AdjointBody::times(NodeId a, NodeId b) {
  if (a < 0 || b < 0) return -1;
  if (is_literal(b, 1)) return a;
  if (is_literal(a, 1)) return b;
  if (is_literal(b, 0) || is_literal(a, 0)) return body.integer(0);
  if (is_literal(b, -1)) return body.operation(Op::neg, {a});
  Node n = body[b];
  if (n.kind == NodeKind::operation && n.op == Op::select) {
    NodeId then = times(a, n.args[1]);
    NodeId otherwise = times(a, n.args[2]);
    return body.operation(Op::select, {n.args[0], then, otherwise}, DType::none, n.span);
  }
  // adjoint * (1 / y) and adjoint * (p / y) read better as divisions.
  if (n.kind == NodeKind::operation && n.op == Op::div) {
    return body.operation(Op::div, {times(a, n.args[0]), n.args[1]}, DType::none, n.span);
  }
  return body.operation(Op::mul, {a, b});
}

NodeId AdjointBody::plus(NodeId a, NodeId b) {
  if (a < 0) return b;
  if (b < 0) return a;
  return body.operation(Op::add, {a, b});
}

NodeId AdjointBody::local(NodeId id, size_t operand) {
  const Node node = body[id];
  const OpInfo& row = info(node.op);
  if (node.op == Op::cast && !is_float(node.type)) return -1;
  if (operand >= row.derivatives.size() || row.derivatives[operand].empty()) return -1;
  constexpr std::array<std::string_view, 4> kNames{"X", "Y", "Z", "R"};
  Body text = parse_scalar_expression(row.derivatives[operand], kNames);
  return graft(body, text, text.results[0], [&](Body&, const Node& leaf) -> NodeId {
    if (leaf.kind != NodeKind::load) return -1;
    return leaf.slot == 3 ? id : node.args[static_cast<size_t>(leaf.slot)];
  });
}

std::vector<bool> AdjointBody::depends_on(int slot) const {
  std::vector<bool> depends(forward_count_, false);
  for (size_t i = 0; i < forward_count_; ++i) {
    const Node& n = body.nodes[i];
    depends[i] = n.kind == NodeKind::load && n.slot == slot;
    for (NodeId arg : n.args) depends[i] = depends[i] || depends[static_cast<size_t>(arg)];
  }
  return depends;
}

NodeId AdjointBody::derivative(int slot, NodeId seed) {
  std::vector<bool> depends = depends_on(slot);
  std::vector<NodeId> adjoint(forward_count_, -1);
  adjoint[static_cast<size_t>(result_)] = seed;
  NodeId total = -1;
  for (size_t i = forward_count_; i-- > 0;) {
    if (adjoint[i] < 0 || !depends[i]) continue;
    const Node node = body.nodes[i];
    if (node.kind == NodeKind::load) {
      total = plus(total, adjoint[i]);
      continue;
    }
    for (size_t k = 0; k < node.args.size(); ++k) {
      auto arg = static_cast<size_t>(node.args[k]);
      if (!depends[arg]) continue;
      NodeId factor = local(static_cast<NodeId>(i), k);
      if (factor < 0) continue;
      adjoint[arg] = plus(adjoint[arg], times(adjoint[i], factor));
    }
  }
  return total < 0 || is_literal(total, 0) ? -1 : total;
}

Body finished(Body body, NodeId result) {
  body.results = {result};
  return tidied(body);
}

}  // namespace tile
