#include "core/passes/normalize/fold_region.h"

namespace tile {

NodeId region_value(Body& to, const Body& region, NodeId root, const std::vector<NodeId>& given) {
  return graft(to, region, root, [&](Body& inner, const Node& n) -> NodeId {
    // Arguments of an inner region are its own.
    bool own = &inner == &to && n.kind == NodeKind::argument;
    return own ? given.at(n.slot) : NodeId();
  });
}

std::vector<NodeId> region_arguments(Body& to, const Body& from, const Node& fold, NodeId counter) {
  size_t carried = fold.slot;
  std::vector<NodeId> given(carried + 1);
  given[0] = counter;
  for (size_t a = carried + 2; a < fold.args.size(); ++a) {
    given.push_back(graft(to, from, fold.args[a], [](Body&, const Node&) { return NodeId{-1}; }));
  }
  return given;
}

Body replace_components(const Body& body, const Node& fold, const ComponentValue& value) {
  std::vector<NodeId> starts;
  NodeId mark;                 // stands for the fold in the copy: only components refer to it
  const Body* home = nullptr;  // regions have nodes of the same numbers
  Body copy = rewritten(body, [&](Body& to, const Node& n) -> NodeId {
    bool this_fold = n.kind == NodeKind::fold && n.region == fold.region && !mark.valid();
    if (this_fold) {
      starts.assign(n.args.begin() + 2, n.args.begin() + 2 + n.slot);
      home = &to;
      mark = to.integer(0, DType::i64, n.span);
      return mark;
    }
    if (n.kind != NodeKind::component || n.args[0] != mark || home != &to) return NodeId();
    return value(to, n, starts[n.slot]);
  });
  return tidied(copy);
}

}  // namespace tile
