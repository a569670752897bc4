#include "core/nest/unused_loads.h"

namespace tile::nest {

void drop_unused(Store& store) {
  store.body = tidied(store.body);
  std::vector<int> slots(store.loads.size(), -1);
  std::vector<Access> left;
  change_nodes(store.body, [&](Node& node) {
    if (node.kind != NodeKind::load) return;
    int& slot = slots[node.slot];
    if (slot < 0) {
      slot = static_cast<int>(left.size());
      left.push_back(store.loads[node.slot]);
    }
    node.slot = slot;
  });
  store.loads = std::move(left);
}

}  // namespace tile::nest
