#include "core/ir/body.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/ir/same_body.h"
#include "core/support/control.h"

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

NodeId Body::index(size_t slot, DType type, Span span) {
  Node node;
  node.kind = NodeKind::index;
  node.type = type;
  node.slot = slot;
  node.span = span;
  return add(std::move(node));
}

NodeId Body::load(size_t slot, DType type, Span span, std::vector<NodeId> values) {
  Node node;
  node.kind = NodeKind::load;
  node.type = type;
  node.args = std::move(values);
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
  NodeId narrow = before_widening(*this, value);
  if ((*this)[narrow].type == type) return narrow;
  return operation(Op::cast, {value}, type, span);
}

NodeId before_widening(const Body& body, NodeId id) {
  const Node& node = body[id];
  if (node.kind != NodeKind::operation || node.op != Op::cast || !is_float(node.type)) return id;
  DType narrow = body[node.args[0]].type;
  return is_float(narrow) && byte_size(narrow) < byte_size(node.type) ? node.args[0] : id;
}

NodeId Body::argument(size_t slot, DType type, Span span) {
  Node node;
  node.kind = NodeKind::argument;
  node.type = type;
  node.slot = slot;
  node.span = span;
  return add(std::move(node));
}

NodeId Body::component(NodeId fold, size_t slot, DType type, Span span) {
  Node node;
  node.kind = NodeKind::component;
  node.type = type;
  node.args = {fold};
  node.slot = slot;
  node.span = span;
  return add(std::move(node));
}

namespace {

// Marks the nodes that the given results need. Arguments come before their users, so one backward
// sweep is enough.
IdVector<NodeId, bool> needed_nodes(const Body& body, const std::vector<NodeId>& results) {
  IdVector<NodeId, bool> needed(body.nodes.size());
  for (NodeId id : results) needed[id] = true;
  for (size_t i = body.nodes.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (NodeId arg : body.nodes[i].args) needed[arg] = true;
  }
  return needed;
}

void remap(std::vector<NodeId>& ids, const IdVector<NodeId, NodeId>& to) {
  for (NodeId& id : ids) id = to[id];
}

size_t combine(size_t seed, size_t value) {
  return seed ^ (value + 0x9e3779b97f4a7c15u + (seed << 6) + (seed >> 2));
}

bool has_expression(const Node& n) { return n.kind == NodeKind::size || n.kind == NodeKind::fold; }

size_t hash_of(const Body& body);

struct NodeHash {
  size_t operator()(const Node& n) const {
    size_t h = combine(static_cast<size_t>(n.kind), static_cast<size_t>(n.op));
    h = combine(h, static_cast<size_t>(n.type));
    h = combine(h, static_cast<size_t>(n.integer));
    h = combine(h, std::bit_cast<uint64_t>(n.real));
    h = combine(h, n.slot);
    for (NodeId arg : n.args) h = combine(h, arg.index());
    if (has_expression(n)) h = combine(h, std::hash<std::string>()(to_string(n.expr)));
    return n.region ? combine(h, hash_of(*n.region)) : h;
  }
};

size_t hash_of(const Body& body) {
  size_t h = body.nodes.size();
  for (const Node& n : body.nodes) h = combine(h, NodeHash()(n));
  for (NodeId r : body.results) h = combine(h, r.index());
  return h;
}

struct NodeEqual {
  static auto key(const Node& n) {
    return std::tuple(n.kind, n.op, n.type, n.integer, std::bit_cast<uint64_t>(n.real), n.slot);
  }
  bool operator()(const Node& a, const Node& b) const {
    if (key(a) != key(b) || a.args != b.args) return false;
    if (has_expression(a) && a.expr != b.expr) return false;
    return a.region == b.region || (a.region && b.region && same_body(*a.region, *b.region));
  }
};

}  // namespace

bool same_body(const Body& a, const Body& b) {
  return a.results == b.results &&
         std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), NodeEqual());
}

namespace {

// Appends copies of the nodes that `roots` need; returns where each went, none for those not
// needed.
IdVector<NodeId, NodeId> copy_into(Body& body, const Body& from, const std::vector<NodeId>& roots,
                                   const Leaf& leaf) {
  IdVector<NodeId, bool> needed = needed_nodes(from, roots);
  IdVector<NodeId, NodeId> copy(from.nodes.size());
  for (size_t i = 0; i < from.nodes.size(); ++i) {
    if (!needed[i]) continue;
    checkpoint();
    Node node = from.nodes[i];
    remap(node.args, copy);
    copy[i] = leaf(body, node);
    if (copy[i].valid()) continue;
    if (node.region) node.region = std::make_shared<const Body>(rewritten(*node.region, leaf));
    copy[i] = body.add(std::move(node));
  }
  return copy;
}

// Tidies the region and captures only what it uses then, each value once.
void tidy_fold(Node& fold) {
  size_t own = fold.slot + 1;  // arguments that are not captured
  size_t outer = own + 1;      // operands that are not captured
  Body region = *fold.region;
  std::vector<int> first(fold.args.size() - outer);  // the first capture of the same value
  for (size_t k = 0; k < first.size(); ++k) {
    auto begin = fold.args.begin() + static_cast<std::ptrdiff_t>(outer);
    first[k] = static_cast<int>(
        std::find(begin, fold.args.end(), begin[static_cast<std::ptrdiff_t>(k)]) - begin);
  }
  auto captured = [&](const Node& n) { return n.kind == NodeKind::argument && n.slot >= own; };
  for (Node& n : region.nodes) {
    if (captured(n)) n.slot = first[n.slot - own] + static_cast<int>(own);
  }
  region = tidied(region);
  std::vector<int> renumbered(first.size(), -1);
  std::vector<NodeId> kept;
  for (Node& n : region.nodes) {
    if (!captured(n)) continue;
    size_t k = n.slot - own;
    if (renumbered[k] < 0) {
      renumbered[k] = static_cast<int>(own + kept.size());
      kept.push_back(fold.args[outer + k]);
    }
    n.slot = renumbered[k];
  }
  fold.args.resize(outer);
  fold.args.insert(fold.args.end(), kept.begin(), kept.end());
  fold.region = std::make_shared<const Body>(std::move(region));
}

}  // namespace

NodeId graft(Body& body, const Body& from, NodeId root, const Leaf& leaf) {
  return copy_into(body, from, {root}, leaf)[root];
}

Body rewritten(const Body& body, const Leaf& leaf) {
  Body out;
  IdVector<NodeId, NodeId> copy = copy_into(out, body, body.results, leaf);
  out.results = body.results;
  remap(out.results, copy);
  return out;
}

void visit_nodes(const Body& body, const std::function<void(const Node&)>& visit) {
  for (const Node& node : body.nodes) {
    checkpoint();
    visit(node);
    if (node.region) visit_nodes(*node.region, visit);
  }
}

void change_nodes(Body& body, const std::function<void(Node&)>& change) {
  for (Node& node : body.nodes) {
    checkpoint();
    change(node);
    if (!node.region) continue;
    Body region = *node.region;
    change_nodes(region, change);
    node.region = std::make_shared<const Body>(std::move(region));
  }
}

namespace {

constexpr size_t kFewNodes = 8;

Body tidied_once(const Body& body) {
  IdVector<NodeId, bool> needed = needed_nodes(body, body.results);
  IdVector<NodeId, NodeId> copy(body.nodes.size());
  std::unordered_map<Node, NodeId, NodeHash, NodeEqual> known;
  Body out;
  // The node's number, or the next one. Among few nodes looking at each is quicker than a table.
  auto number_of = [&](const Node& node) {
    NodeId next(out.nodes.size());
    if (body.nodes.size() > kFewNodes) return known.emplace(node, next).first->second;
    for (NodeId id(0); id < next; ++id) {
      if (NodeEqual()(out.nodes[id], node)) return id;
    }
    return next;
  };
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    if (!needed[i]) continue;
    checkpoint();
    Node node = body.nodes[i];
    remap(node.args, copy);
    if (node.region) tidy_fold(node);
    copy[i] = number_of(node);
    if (copy[i] == NodeId(out.nodes.size())) out.add(std::move(node));
  }
  out.results = body.results;
  remap(out.results, copy);
  return out;
}

// Whether tidying changes nothing; false also where that is not quickly told.
bool is_tidy(const Body& body) {
  if (body.nodes.size() > kFewNodes) return false;
  IdVector<NodeId, bool> needed = needed_nodes(body, body.results);
  for (NodeId id : body.nodes.ids()) {
    if (!needed[id] || body.nodes[id].region) return false;
    for (NodeId before(0); before < id; ++before) {
      if (NodeEqual()(body.nodes[before], body.nodes[id])) return false;
    }
  }
  return true;
}

}  // namespace

// A fold may stop capturing a value that nothing else needs.
Body tidied(const Body& body) {
  if (is_tidy(body)) return body;
  Body out = tidied_once(body);
  bool folds = std::any_of(out.nodes.begin(), out.nodes.end(),
                           [](const Node& n) { return n.kind == NodeKind::fold; });
  return folds ? tidied_once(out) : out;
}

}  // namespace tile
