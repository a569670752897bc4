// Vector loops whose lanes see what the ones before them update (scans).
#include "backends/cpu/combine.h"
#include "backends/cpu/emitter.h"
#include "backends/cpu/types.h"

namespace tile::cpu {

// Before the statements of an ordered loop: each cell that they update, as every lane finds it.
void FunctionEmitter::begin_running(const nest::Block& statements) {
  for (const nest::Statement& s : statements) {
    if (const auto* guard = std::get_if<nest::If>(&s.what)) {
      begin_running(guard->then);
      begin_running(guard->otherwise);
      continue;
    }
    const auto& store = std::get<nest::Store>(s.what);
    if (store.kind == nest::StoreKind::assign) continue;
    Reference target = memory_.resolve(store.target, {}, lanes_);
    internal_check(target.cell >= 0, "cpu: a running value that is no register");
    if (target.lanes || running_.contains({target.buffer, target.cell})) continue;
    llvm::AllocaInst*& at = running_[{target.buffer, target.cell}];
    llvm::Value* old = splat(memory_.load(target, Lanes{}));
    {
      llvm::IRBuilderBase::InsertPointGuard guard(ir_);
      llvm::BasicBlock& entry = function_.getEntryBlock();
      ir_.SetInsertPoint(&entry, entry.begin());
      at = ir_.CreateAlloca(old->getType());
    }
    running_cells_.push_back(at);
    ir_.CreateStore(old, at);
  }
}

// What the cell holds in each lane's iteration; null: the same in all of them.
llvm::Value* FunctionEmitter::running_value(const Reference& r) {
  auto at = r.cell < 0 || r.lanes ? running_.end() : running_.find({r.buffer, r.cell});
  if (at == running_.end()) return nullptr;
  return ir_.CreateLoad(at->second->getAllocatedType(), at->second);
}

void FunctionEmitter::update_running(const nest::Store& s, const Reference& target,
                                     llvm::Value* value, llvm::Value* factor) {
  internal_check(s.kind != nest::StoreKind::assign, "cpu: a running value that is assigned");
  RunningLanes before{running_value(target), memory_.load(target, Lanes{})};
  RunningLanes after =
      emit_running_lanes(ir_, s.kind, type_of(target.buffer), before, splat(value),
                         factor == nullptr ? nullptr : splat(factor), lanes_.mask, half_);
  ir_.CreateStore(after.each, running_.at({target.buffer, target.cell}));
  memory_.store(target, after.last, Lanes{});
}

}  // namespace tile::cpu
