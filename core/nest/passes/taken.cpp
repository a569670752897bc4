#include "core/nest/passes/taken.h"

#include <algorithm>
#include <optional>

#include "core/ir/analysis/accesses.h"

namespace tile::nest {
namespace {

// The value of a node that is an integer known now.
std::optional<int64_t> known(const Node& node) {
  if (node.kind == NodeKind::integer && !is_float(node.type)) return node.integer;
  if (node.kind == NodeKind::size && node.expr.is_constant()) return node.expr.value();
  return std::nullopt;
}

// The side of a select whose condition is known; none: any other node.
NodeId taken(const Body& body, const Node& node) {
  if (node.kind != NodeKind::operation || node.op != Op::select) return NodeId();
  std::optional<int64_t> condition = known(body[node.args[0]]);
  if (!condition) return NodeId();
  NodeId side = node.args[*condition != 0 ? 1 : 2];
  return body[side].type == node.type ? side : NodeId();
}

bool has_taken(const Body& body) {
  return std::any_of(body.nodes.begin(), body.nodes.end(), [&](const Node& node) {
    return taken(body, node).valid() || (node.region && has_taken(*node.region));
  });
}

// `more`: numbers of nodes that are needed beside the body's results; -1: none.
void fold_selects(Body& body, std::vector<Access>& loads, std::vector<int>* more) {
  if (!has_taken(body)) return;
  size_t results = body.results.size();
  for (size_t i = 0; more != nullptr && i < more->size(); ++i) {
    if ((*more)[i] >= 0) body.results.emplace_back((*more)[i]);
  }
  body = tidied(rewritten(body, taken));
  size_t next = results;
  for (size_t i = 0; more != nullptr && i < more->size(); ++i) {
    if ((*more)[i] >= 0) (*more)[i] = body.results[next++].number();
  }
  body.results.resize(results);
  drop_unread(body, loads);
}

}  // namespace

void fold_selects(Store& store) { fold_selects(store.body, store.loads, &store.target.values); }
void fold_selects(If& guard) { fold_selects(guard.predicate, guard.loads, nullptr); }

}  // namespace tile::nest
