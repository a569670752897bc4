#include "core/autodiff/loops/loop_trips.h"

#include <algorithm>

#include "core/autodiff/derivation/boundary_cases.h"
#include "core/autodiff/derivation/index_expression.h"
#include "core/passes/bind/bind_context.h"
#include "core/simplify/simplify.h"

namespace tile {

LoopTrips trips_of(const Derivation& derivation, const SymbolicContraction& c, const Node& fold) {
  IndexExpressions expressions(derivation.program, c);
  Ranges ranges = known_ranges(derivation.program, c);
  NodeId begin = fold.args[0], end = fold.args[1];
  std::optional<Expr> lo = expressions.value(c.body, begin), hi = expressions.value(c.body, end);
  LoopTrips trips;
  if (lo && hi) {
    Expr length = simplify(*hi - *lo, ranges);
    trips.exact = expressions.is_index_free(length);
    if (trips.exact) {
      trips.most = simplify(max(length, 0), ranges);
      return trips;
    }
    if (has_affine_form(length, c.indices)) trips.length = length;
  }
  std::optional<Expr> least = expressions.least(c.body, begin);
  std::optional<Expr> most = expressions.most(c.body, end);
  if (!least || !most) {
    fail(Stage::bind, "gradient", fold.span,
         "the derivative of a loop whose number of trips depends on data is not known: nothing "
         "bounds it",
         "bound the range, as in 0..<min(n, 64)");
  }
  trips.most = simplify(max(*most - *least, 0), ranges);
  return trips;
}

size_t add_trip_index(SymbolicContraction& c, const LoopTrips& trips, int shift, Span span) {
  std::string name = "k'";
  for (int n = 1; std::find(c.indices.begin(), c.indices.end(), name) != c.indices.end(); ++n) {
    name = "k" + std::to_string(n) + "'";
  }
  size_t slot = c.indices.size();
  c.indices.push_back(name);
  Expr t = Expr::variable(name);
  c.constraints.push_back({t, trips.most + shift, span});
  if (trips.length) c.constraints.push_back({*trips.length + (shift - 1) - t, Expr(kFar), span});
  return slot;
}

NodeId trip_counter(Body& to, const Body& from, const Node& fold, size_t slot, int shift) {
  NodeId t = to.index(slot, DType::i64, fold.span);
  if (shift != 0) {
    NodeId by = to.integer(shift, DType::i64);
    t = to.operation(Op::sub, {t, by}, DType::i64, fold.span);
  }
  const Node& first = from[fold.args[0]];
  if (first.kind == NodeKind::integer && first.integer == 0) return t;
  NodeId begin = graft(to, from, fold.args[0], [](Body&, const Node&) { return NodeId{-1}; });
  return to.operation(Op::add, {begin, t}, DType::i64, fold.span);
}

NodeId trip_condition(Body& to, const Body& from, const Node& fold, NodeId counter) {
  NodeId end = graft(to, from, fold.args[1], [](Body&, const Node&) { return NodeId{-1}; });
  return to.operation(Op::lt, {counter, end}, DType::bool_, fold.span);
}

std::map<DType, std::vector<size_t>> components_by_type(const Body& body, const Node& fold) {
  std::map<DType, std::vector<size_t>> components;
  for (size_t k = 0; k < fold.slot; ++k) components[body[fold.args[k + 2]].type].push_back(k);
  return components;
}

}  // namespace tile
