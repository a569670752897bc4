// Stores: of one value or of all components of a pixel, by lanes that have cells of their own or
// share one.
#pragma once

#include "backends/cpu/emit/component_emitter.h"
#include "backends/cpu/emit/prefetch_emitter.h"

namespace tile::cpu {

class StoreEmitter {
 public:
  StoreEmitter(EmitContext& context, BodyEmitter& bodies, RunningEmitter& running,
               PrefetchEmitter& prefetches)
      : c_(context),
        bodies_(bodies),
        running_(running),
        prefetches_(prefetches),
        components_(context, bodies) {}

  void store(const nest::Store& s);
  // How many statements from `first` on assign all components of one pixel in order.
  size_t components_from(const nest::Block& statements, size_t first) const;
  // Stores the components together where memory lies so; otherwise emits nothing and says false.
  bool store_together(const nest::Block& statements, size_t first, size_t count);

 private:
  void update(const nest::Store& s, const Reference& target, llvm::Value* value,
              llvm::Value* factor);
  void update_from_lanes(const nest::Store& s, const Reference& target, llvm::Value* value,
                         llvm::Value* factor);
  void update_lane_by_lane(const nest::Store& s, const Reference& target, llvm::Value* value,
                           llvm::Value* factor);
  void count_store();
  llvm::Value* last_lane(llvm::Value* value);

  EmitContext& c_;
  BodyEmitter& bodies_;
  RunningEmitter& running_;
  PrefetchEmitter& prefetches_;
  ComponentEmitter components_;
  llvm::BasicBlock* stores_in_ = nullptr;  // the block that stores_ counts
  int stores_ = 0;
};

}  // namespace tile::cpu
