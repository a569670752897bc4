#include "core/passes/normalize/unroll_folds.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/passes/normalize/fold_constants.h"
#include "core/passes/normalize/normalize.h"

namespace tile {
namespace {

constexpr int64_t kMostTrips = 32;  // of nested loops together
constexpr size_t kMostNodes = 600;  // that one loop becomes
constexpr size_t kMostBody = 3000;  // of a body that still grows
constexpr int kMostRounds = 4;      // bounds may be known once an outer loop is written out

// How often a fold runs, where that is known from literals.
std::optional<int64_t> trips_of(const Body& body, const Node& fold) {
  const Node &begin = body[fold.args[0]], &end = body[fold.args[1]];
  if (begin.kind != NodeKind::integer || end.kind != NodeKind::integer) return std::nullopt;
  // A distance past 64 bits is no small number.
  unsigned __int128 distance =
      static_cast<unsigned __int128>(static_cast<__int128>(end.integer) - begin.integer);
  if (end.integer <= begin.integer) return 0;
  return distance > static_cast<unsigned __int128>(kMostTrips) ? kMostTrips + 1
                                                               : static_cast<int64_t>(distance);
}

// Iterations of the innermost bodies, nested loops of constant bounds counted; more than kMostTrips
// counts as one more than that.
std::optional<int64_t> total_trips(const Body& body, const Node& fold) {
  std::optional<int64_t> own = trips_of(body, fold);
  if (!own) return std::nullopt;
  int64_t inner = 1;
  for (const Node& node : fold.region->nodes) {
    if (node.kind != NodeKind::fold) continue;
    std::optional<int64_t> trips = total_trips(*fold.region, node);
    if (trips) inner = std::max(inner, *trips);
  }
  return std::min(*own * inner, kMostTrips + 1);
}

size_t node_count(const Body& body) {
  size_t count = 0;
  visit_nodes(body, [&](const Node&) { ++count; });
  return count;
}

class Unroller {
 public:
  bool changed = false;

  NodeId leaf(Body& body, const Node& node) {
    if (node.kind == NodeKind::component) {
      auto known = carried_.find({&body, node.args[0]});
      return known == carried_.end() ? NodeId() : known->second[node.slot];
    }
    if (node.kind != NodeKind::fold) return NodeId();
    std::optional<int64_t> trips = total_trips(body, node);
    bool small = trips && *trips <= kMostTrips && body.nodes.size() <= kMostBody &&
                 node_count(*node.region) * static_cast<size_t>(*trips) <= kMostNodes;
    if (small) return written_out(body, node);
    // The place may have held a mark of another body that is gone.
    carried_.erase({&body, NodeId(body.nodes.size())});
    // A long reduction is better whole: it becomes one over all its loops' indices.
    return trips && node.op != Op::ident ? body.add(node) : NodeId();
  }

 private:
  NodeId written_out(Body& body, const Node& node) {
    changed = true;
    int64_t begin = body[node.args[0]].integer, trips = trips_of(body, node).value();
    // Arguments of the region: the counter, carried and captured values.
    std::vector<NodeId> given(1);
    given.insert(given.end(), node.args.begin() + 2, node.args.end());
    size_t carried = node.slot;
    for (int64_t i = 0; i < trips; ++i) {
      given[0] = body.integer(begin + i, DType::i64, node.span);
      std::vector<NodeId> next = iteration(body, node, given);
      for (size_t c = 0; c < carried; ++c) {
        given[c + 1] = node.op == Op::ident ? next[c] : combined(body, node, given[c + 1], next[c]);
      }
    }
    // Stands for the fold; only components refer to it, and they are replaced.
    NodeId mark = body.integer(0, DType::i64, node.span);
    carried_[{&body, mark}] = {given.begin() + 1,
                               given.begin() + 1 + static_cast<std::ptrdiff_t>(carried)};
    return mark;
  }

  std::vector<NodeId> iteration(Body& body, const Node& node, const std::vector<NodeId>& given) {
    std::vector<NodeId> results;
    for (NodeId root : node.region->results) {
      results.push_back(graft(body, *node.region, root, [&](Body& to, const Node& n) -> NodeId {
        // Arguments of an inner region are its own.
        if (&to == &body && n.kind == NodeKind::argument) {
          return given[n.slot];
        }
        return leaf(to, n);
      }));
    }
    return results;
  }

  static NodeId combined(Body& body, const Node& node, NodeId old, NodeId term) {
    DType type = body[old].type, wide = compute_type(type);
    NodeId a = body.cast(old, wide, node.span), b = body.cast(term, wide, node.span);
    return body.cast(body.operation(node.op, {a, b}, wide, node.span), type, node.span);
  }

  std::map<std::pair<const Body*, NodeId>, std::vector<NodeId>> carried_;
};

bool has_folds(const Body& body) {
  bool found = false;
  visit_nodes(body, [&](const Node& n) { found = found || n.kind == NodeKind::fold; });
  return found;
}

}  // namespace

Body with_loops_written_out(const Body& body,
                            const std::function<Body(const Body&)>& fold_constants) {
  Body result = body;
  for (int round = 0; round < kMostRounds && has_folds(result); ++round) {
    result = fold_constants(result);
    Unroller unroller;
    Body written = rewritten(result, [&](Body& to, const Node& n) { return unroller.leaf(to, n); });
    if (!unroller.changed) break;
    result = fold_constants(written);
  }
  return result;
}

void unroll_folds(BoundProgram& program, const Target&) {
  for (BoundStatement& statement : program.statements) {
    Contraction* c = std::get_if<Contraction>(&statement);
    if (c == nullptr) continue;
    for (Piece& piece : c->pieces) {
      if (!has_folds(piece.body)) continue;
      Piece trial = piece;
      piece.body = with_loops_written_out(piece.body, [&](const Body& body) {
        trial.body = body;
        return with_constants_folded(program, trial);
      });
    }
  }
}

}  // namespace tile
