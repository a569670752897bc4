#include "core/autodiff/loops/nested_loops.h"

#include <algorithm>

#include "core/passes/normalize/fold_region.h"

namespace tile {
namespace {

// Whether `root` uses the counter or a carried value of its region, whose fold carries `carried`.
bool uses_own_arguments(const Body& region, NodeId root, size_t carried) {
  const Node& n = region[root];
  if (n.kind == NodeKind::argument) return n.slot <= carried;
  return std::any_of(n.args.begin(), n.args.end(),
                     [&](NodeId arg) { return uses_own_arguments(region, arg, carried); });
}

// The fold that is all that the region of `outer` does; null: there is none.
const Node* only_inner(const Node& outer) {
  const Body& region = *outer.region;
  const Node& root = region[region.results[0]];
  if (outer.op != Op::ident || root.kind != NodeKind::component) return nullptr;
  const Node& inner = region[root.args[0]];
  if (inner.op != Op::ident || inner.slot != outer.slot) return nullptr;
  for (size_t c = 0; c < outer.slot; ++c) {
    const Node& result = region[region.results[c]];
    const Node& start = region[inner.args[c + 2]];
    bool passes = result.kind == NodeKind::component && result.args[0] == root.args[0] &&
                  result.slot == c && start.kind == NodeKind::argument && start.slot == c + 1;
    if (!passes) return nullptr;
  }
  bool fixed = !uses_own_arguments(region, inner.args[0], outer.slot) &&
               !uses_own_arguments(region, inner.args[1], outer.slot);
  return fixed ? &inner : nullptr;
}

NodeId trips(Body& body, NodeId begin, NodeId end) {
  NodeId length = body.operation(Op::sub, {end, begin}, DType::i64);
  return body.operation(Op::max, {length, body.integer(0, DType::i64)}, DType::i64);
}

NodeId flattened(Body& to, const Node& outer, const Node& inner) {
  size_t carried = outer.slot;
  const Body& region = *outer.region;
  std::vector<NodeId> around(carried + 1);
  around.insert(around.end(), outer.args.begin() + 2 + outer.slot, outer.args.end());
  NodeId begin = region_value(to, region, inner.args[0], around);
  NodeId end = region_value(to, region, inner.args[1], around);
  NodeId outer_trips = trips(to, outer.args[0], outer.args[1]), inner_trips = trips(to, begin, end);
  NodeId one = to.integer(1, DType::i64);
  NodeId divisor = to.operation(Op::max, {inner_trips, one}, DType::i64);

  Node fold = outer;
  fold.args = {to.integer(0, DType::i64),
               to.operation(Op::mul, {outer_trips, inner_trips}, DType::i64)};
  fold.args.insert(fold.args.end(), outer.args.begin() + 2, outer.args.end());
  Body step;
  auto capture = [&](NodeId value) {
    fold.args.push_back(value);
    return step.argument(fold.args.size() - 2, DType::i64);
  };
  NodeId first = capture(outer.args[0]), inner_first = capture(begin), by = capture(divisor);
  NodeId t = step.argument(0, DType::i64);
  NodeId row = step.operation(Op::div, {t, by}, DType::i64);
  NodeId place = step.operation(Op::mod, {t, by}, DType::i64);
  std::vector<NodeId> given{step.operation(Op::add, {first, row}, DType::i64)};
  for (size_t a = 2; a < outer.args.size(); ++a)
    given.push_back(step.argument(a - 1, to[outer.args[a]].type));
  std::vector<NodeId> inner_given{step.operation(Op::add, {inner_first, place}, DType::i64)};
  for (size_t a = 2; a < inner.args.size(); ++a)
    inner_given.push_back(region_value(step, region, inner.args[a], given));
  for (NodeId result : inner.region->results)
    step.results.push_back(region_value(step, *inner.region, result, inner_given));
  fold.region = std::make_shared<const Body>(std::move(step));
  return to.add(std::move(fold));
}

}  // namespace

Body with_nests_flattened(const Body& body) {
  return tidied(rewritten(body, [&](Body& to, const Node& n) -> NodeId {
    if (n.kind != NodeKind::fold) return NodeId();
    Node fold = n;
    fold.region = std::make_shared<const Body>(with_nests_flattened(*n.region));
    const Node* inner = only_inner(fold);
    return inner != nullptr ? flattened(to, fold, *inner) : to.add(std::move(fold));
  }));
}

}  // namespace tile
