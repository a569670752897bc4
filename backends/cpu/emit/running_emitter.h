// Vector loops whose lanes see what the ones before them update (scans).
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>

#include "backends/cpu/emit/emit_context.h"

namespace tile::cpu {

class RunningEmitter {
 public:
  explicit RunningEmitter(EmitContext& context) : c_(context) {}

  // Before the statements of an ordered loop, and after them. Between the two, `begin` is for the
  // loop's body: each cell that it updates, as every lane finds it.
  void begin_loop(const nest::For& f, const Form& begin);
  void begin_running(const nest::Block& statements);
  void end_loop();
  // The loop's last iteration is in lane 0.
  bool is_mirrored() const { return mirrored_; }
  // What the cell holds in each lane's iteration; null: the same in all of them.
  llvm::Value* running_value(const Reference& r);
  void update_running(const nest::Store& s, const Reference& target, llvm::Value* value,
                      llvm::Value* factor);

 private:
  llvm::Value* on_every_lane(llvm::Value* value);
  bool runs_back(const nest::Block& statements, const std::string& variable, const Form& begin);

  EmitContext& c_;
  // Of the ordered vector loop that is being emitted: by buffer and cell, what the cell holds in
  // each lane's iteration.
  std::map<std::pair<nest::BufferId, int64_t>, llvm::AllocaInst*> running_;
  std::set<std::pair<nest::BufferId, int64_t>>
      updated_;  // cells of running_ that are updated already
  bool mirrored_ = false;
  // Running values that such loops left, and the vectors that have them on every lane.
  std::map<llvm::Value*, llvm::Value*> on_lanes_;
};

}  // namespace tile::cpu
