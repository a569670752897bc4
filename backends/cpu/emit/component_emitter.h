// All components of a pixel at once: where they are computed alike, in lanes of 16 bits and fewer,
// the lanes are the components of neighbouring pixels as they lie in memory, and nothing is taken
// apart or put together.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "backends/cpu/emit/body_emitter.h"

namespace tile::cpu {

class ComponentEmitter {
 public:
  ComponentEmitter(EmitContext& context, BodyEmitter& bodies) : c_(context), bodies_(bodies) {}

  // The components of one pixel for each lane, as they lie in memory; null: not computed alike.
  llvm::Value* packed_pixels(const std::vector<const nest::Store*>& stores);

 private:
  struct Components {
    std::vector<const nest::Store*> stores;
    std::map<std::vector<NodeId>, llvm::Value*> values;  // by a node of each store's body
    const Body& body(size_t c) const { return stores[c]->body; }
    const nest::Access& access(size_t c, NodeId id) const;
    std::vector<NodeId> arguments(const std::vector<NodeId>& ids, size_t which) const;
  };
  bool reads_components(const Components& all, const std::vector<NodeId>& ids);
  bool packs(const Components& all, const std::vector<NodeId>& ids,
             std::set<std::vector<NodeId>>& known);
  llvm::Value* packed(Components& all, const std::vector<NodeId>& ids);

  EmitContext& c_;
  BodyEmitter& bodies_;
};

// The same place but for the last index, a number.
bool same_pixel(const nest::Access& a, const nest::Access& b);

}  // namespace tile::cpu
