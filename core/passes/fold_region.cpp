#include "core/passes/fold_region.h"

namespace tile {

NodeId region_value(Body& to, const Body& region, NodeId root, const std::vector<NodeId>& given) {
  return graft(to, region, root, [&](Body& inner, const Node& n) -> NodeId {
    // Arguments of an inner region are its own.
    bool own = &inner == &to && n.kind == NodeKind::argument;
    return own ? given.at(static_cast<size_t>(n.slot)) : -1;
  });
}

std::vector<NodeId> region_arguments(Body& to, const Body& from, const Node& fold, NodeId counter) {
  auto carried = static_cast<size_t>(fold.slot);
  std::vector<NodeId> given(carried + 1, -1);
  given[0] = counter;
  for (size_t a = carried + 2; a < fold.args.size(); ++a) {
    given.push_back(graft(to, from, fold.args[a], [](Body&, const Node&) { return NodeId{-1}; }));
  }
  return given;
}

}  // namespace tile
