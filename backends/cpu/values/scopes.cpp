#include "backends/cpu/values/scopes.h"

namespace tile::cpu {

void Scopes::open(llvm::Instruction* entry, const std::set<nest::BufferId>& stored) {
  stack_.back().exit = entry;
  stack_.emplace_back();
  stack_.back().hidden = stored;
  stack_.back().changed = stored;
}

void Scopes::close() {
  std::set<nest::BufferId> changed = std::move(stack_.back().changed);
  stack_.pop_back();
  stack_.back().exit = nullptr;
  for (nest::BufferId buffer : changed) forget(buffer);
}

llvm::Value* Scopes::once_at(size_t scope, const Key& key,
                             const std::function<llvm::Value*()>& make) {
  for (size_t s = scope + 1; s-- > 0;) {
    auto& values = stack_[s].values;
    if (auto it = values.find(key); it != values.end()) return it->second;
  }
  llvm::Value* value = nullptr;
  llvm::Instruction* exit = stack_[scope].exit;
  if (exit == nullptr) {
    value = make();
  } else {
    llvm::IRBuilderBase::InsertPointGuard guard(ir_);
    ir_.SetInsertPoint(exit);
    value = make();
  }
  stack_[scope].values[key] = value;
  return value;
}

llvm::Value* Scopes::content(nest::BufferId buffer, const Key& key) const {
  for (auto s = stack_.rbegin(); s != stack_.rend(); ++s) {
    if (auto known = s->contents.find(buffer); known != s->contents.end()) {
      if (auto it = known->second.find(key); it != known->second.end()) return it->second;
    }
    if (s->hidden.contains(buffer)) return nullptr;
  }
  return nullptr;
}

void Scopes::remember(nest::BufferId buffer, const Key& key, llvm::Value* value) {
  stack_.back().contents[buffer][key] = value;
}

void Scopes::forget(nest::BufferId buffer) {
  stack_.back().contents.erase(buffer);
  stack_.back().hidden.insert(buffer);
  stack_.back().changed.insert(buffer);
}

}  // namespace tile::cpu
