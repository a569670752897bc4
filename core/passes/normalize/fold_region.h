// Regions of folds as values of the body around them.
#pragma once

#include <functional>
#include <vector>

#include "core/ir/body.h"

namespace tile {

// Appends to `to` the value of `root`, a node of the region, where the region's argument number s
// is given[s], a node of `to`.
NodeId region_value(Body& to, const Body& region, NodeId root, const std::vector<NodeId>& given);

// The region's arguments for a fold of `from`, whose captured values are copied into `to`: the
// counter is `counter`, carried values are not given (none).
std::vector<NodeId> region_arguments(Body& to, const Body& from, const Node& fold, NodeId counter);

// The body in which `value` stands for each component of the fold: it appends to `to` what the
// component becomes, given the component and the fold's start for it (a node of `to`).
using ComponentValue = std::function<NodeId(Body& to, const Node& component, NodeId start)>;
Body replace_components(const Body& body, const Node& fold, const ComponentValue& value);

}  // namespace tile
