// What accesses move with, and those of a list that a body reads.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/ir/bound.h"

namespace tile {

// Whether some index of the access changes with the iterator.
inline bool moves_with(const Access& access, size_t iterator) {
  return std::any_of(access.index.begin(), access.index.end(), [&](const Index& index) {
    return !index.affine.coefficient(iterator).is_zero();
  });
}

// Drops the loads that no node of the body reads, regions included, and numbers the others anew.
// The accesses may be a program's or a nest's.
template <class Load>
void drop_unread(Body& body, std::vector<Load>& loads) {
  std::vector<int> slots(loads.size(), -1);
  std::vector<Load> kept;
  change_nodes(body, [&](Node& node) {
    if (node.kind != NodeKind::load) return;
    int& slot = slots[node.slot];
    if (slot < 0) {
      slot = static_cast<int>(kept.size());
      kept.push_back(loads[node.slot]);
    }
    node.slot = slot;
  });
  loads = std::move(kept);
}

}  // namespace tile
