#include "core/passes/optimize/body_cost.h"

#include <algorithm>

namespace tile {
namespace {

constexpr double kUnknownTrips = 16;

double body_cost(const Body& body) {
  double cost = 0;
  for (const Node& node : body.nodes) {
    cost += node.kind == NodeKind::fold ? body_cost(*node.region) * fold_trips(body, node)
                                        : node_cost(node);
  }
  return cost;
}

// The unknown that alone names the place along the last dimension stored; -1: there is none.
int innermost(const Piece& piece) {
  const std::vector<Index>& index = piece.stores[0].index;
  for (size_t u = 0; u < piece.unknowns.size() && !index.empty(); ++u) {
    if (index.back().affine == unknown_affine(u)) return static_cast<int>(u);
  }
  return -1;
}

// Of each node, whether it varies along an unknown.
std::vector<bool> varying(const Piece& piece, size_t unknown) {
  std::vector<bool> varies;
  for (const Node& node : piece.body.nodes) {
    bool here = std::any_of(node.args.begin(), node.args.end(),
                            [&](NodeId arg) { return varies[static_cast<size_t>(arg)]; });
    if (node.kind == NodeKind::index) here = node.slot == static_cast<int>(unknown);
    if (node.kind == NodeKind::fold) here = true;
    if (node.kind == NodeKind::load) {
      for (const Index& index : piece.loads[static_cast<size_t>(node.slot)].index) {
        here = here || !index.affine.coefficient(unknown).is_zero();
      }
    }
    varies.push_back(here);
  }
  return varies;
}

}  // namespace

double node_cost(const Node& node) {
  if (node.kind == NodeKind::load) return 1;
  if (node.kind != NodeKind::operation || node.op == Op::cast || node.op == Op::ident) return 0;
  TypeRule rule = info(node.op).rule;
  bool division = node.op == Op::div || node.op == Op::mod || node.op == Op::sqrt;
  if (rule == TypeRule::floating || rule == TypeRule::random) return 10;
  return division ? 4 : 1;
}

double fold_trips(const Body& body, const Node& fold) {
  const Node &begin = body[fold.args[0]], &end = body[fold.args[1]];
  bool known = begin.kind == NodeKind::integer && end.kind == NodeKind::integer;
  return known ? static_cast<double>(std::max<int64_t>(0, end.integer - begin.integer))
               : kUnknownTrips;
}

double element_cost(const Piece& piece) {
  double cost = body_cost(piece.body);
  int inner = innermost(piece);
  if (inner < 0 || piece.box.empty()) return cost;
  auto repeats = static_cast<double>(std::max<int64_t>(1, piece.box[static_cast<size_t>(inner)]));
  std::vector<bool> varies = varying(piece, static_cast<size_t>(inner));
  for (size_t i = 0; i < varies.size(); ++i) {
    if (!varies[i]) cost -= node_cost(piece.body.nodes[i]) * (1 - 1 / repeats);
  }
  return cost;
}

}  // namespace tile
