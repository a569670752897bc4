#include "core/ir/body.h"

#include <bit>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace tile {

NodeId Body::integer(int64_t value, DType type, Span span) {
  Node node;
  node.kind = NodeKind::integer;
  node.type = type;
  node.integer = value;
  node.span = span;
  return add(std::move(node));
}

NodeId Body::real(double value, DType type, Span span) {
  Node node;
  node.kind = NodeKind::real;
  node.type = type;
  node.real = value;
  node.span = span;
  return add(std::move(node));
}

NodeId Body::size(Expr expr, DType type, Span span) {
  Node node;
  node.kind = NodeKind::size;
  node.type = type;
  node.expr = std::move(expr);
  node.span = span;
  return add(std::move(node));
}

NodeId Body::index(int slot, DType type, Span span) {
  Node node;
  node.kind = NodeKind::index;
  node.type = type;
  node.slot = slot;
  node.span = span;
  return add(std::move(node));
}

NodeId Body::load(int slot, DType type, Span span) {
  Node node;
  node.kind = NodeKind::load;
  node.type = type;
  node.slot = slot;
  node.span = span;
  return add(std::move(node));
}

NodeId Body::operation(Op op, std::vector<NodeId> args, DType type, Span span) {
  Node node;
  node.kind = NodeKind::operation;
  node.op = op;
  node.type = type;
  node.args = std::move(args);
  node.span = span;
  return add(std::move(node));
}

NodeId Body::cast(NodeId value, DType type, Span span) {
  if ((*this)[value].type == type) return value;
  return operation(Op::cast, {value}, type, span);
}

namespace {

// Marks the nodes that the given results need. Arguments come before their users, so one backward
// sweep is enough.
std::vector<bool> needed_nodes(const Body& body, const std::vector<NodeId>& results) {
  std::vector<bool> needed(body.nodes.size());
  for (NodeId id : results) needed[static_cast<size_t>(id)] = true;
  for (size_t i = body.nodes.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (NodeId arg : body.nodes[i].args) needed[static_cast<size_t>(arg)] = true;
  }
  return needed;
}

void remap(std::vector<NodeId>& ids, const std::vector<NodeId>& to) {
  for (NodeId& id : ids) id = to[static_cast<size_t>(id)];
}

size_t combine(size_t seed, size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15u + (seed << 6) + (seed >> 2));
}

struct NodeHash {
  size_t operator()(const Node& n) const {
    size_t h = combine(static_cast<size_t>(n.kind), static_cast<size_t>(n.op));
    h = combine(h, static_cast<size_t>(n.type));
    h = combine(h, static_cast<size_t>(n.integer));
    h = combine(h, std::bit_cast<uint64_t>(n.real));
    h = combine(h, static_cast<size_t>(n.slot));
    for (NodeId arg : n.args) h = combine(h, static_cast<size_t>(arg));
    if (n.kind == NodeKind::size) h = combine(h, std::hash<std::string>()(to_string(n.expr)));
    return h;
  }
};

// Positions do not count, and a real is its bits: 0 and -0 differ.
struct NodeEqual {
  static auto key(const Node& n) {
    return std::tuple(n.kind, n.op, n.type, n.integer, std::bit_cast<uint64_t>(n.real), n.slot);
  }
  bool operator()(const Node& a, const Node& b) const {
    return key(a) == key(b) && a.args == b.args && (a.kind != NodeKind::size || a.expr == b.expr);
  }
};

}  // namespace

NodeId graft(Body& body, const Body& from, NodeId root,
             const std::function<NodeId(Body&, const Node&)>& leaf) {
  std::vector<bool> needed = needed_nodes(from, {root});
  std::vector<NodeId> copy(from.nodes.size(), -1);
  for (size_t i = 0; i < from.nodes.size(); ++i) {
    if (!needed[i]) continue;
    copy[i] = leaf(body, from.nodes[i]);
    if (copy[i] >= 0) continue;
    Node node = from.nodes[i];
    remap(node.args, copy);
    copy[i] = body.add(std::move(node));
  }
  return copy[static_cast<size_t>(root)];
}

Body tidied(const Body& body) {
  std::vector<bool> needed = needed_nodes(body, body.results);
  std::vector<NodeId> copy(body.nodes.size(), -1);
  std::unordered_map<Node, NodeId, NodeHash, NodeEqual> known;
  Body out;
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    if (!needed[i]) continue;
    Node node = body.nodes[i];
    remap(node.args, copy);
    auto [it, inserted] = known.emplace(node, static_cast<NodeId>(out.nodes.size()));
    if (inserted) out.add(std::move(node));
    copy[i] = it->second;
  }
  out.results = body.results;
  remap(out.results, copy);
  return out;
}

}  // namespace tile
