// What is known at a point of the emitted code: values already computed (so that each is computed
// once) and contents of memory already read. Scopes follow the control flow: a scope is a stretch
// of code that its parent's code dominates, such as the body of a loop.
#pragma once

#include <llvm/IR/IRBuilder.h>

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "core/nest/nest.h"

namespace tile::cpu {

using Key = std::vector<uint64_t>;
inline uint64_t key_of(const llvm::Value* value) { return reinterpret_cast<uint64_t>(value); }

class Scopes {
 public:
  explicit Scopes(llvm::IRBuilderBase& ir) : ir_(ir), stack_(1) {}

  // The innermost scope; 0 is the function's.
  size_t current() const { return stack_.size() - 1; }
  // Opens a scope entered by the terminator `entry` of the current block. Contents of the buffers
  // in `stored` are not carried in: a loop stores to them in earlier iterations.
  void open(llvm::Instruction* entry, const std::set<nest::BufferId>& stored = {});
  void close();

  // The value remembered under `key` in any open scope, else what `make` emits, remembered in the
  // current scope.
  llvm::Value* once(const Key& key, const std::function<llvm::Value*()>& make) {
    return once_at(current(), key, make);
  }
  // Emits in an outer scope, just before the code of the scope inside it.
  llvm::Value* once_at(size_t scope, const Key& key, const std::function<llvm::Value*()>& make);

  // Contents of buffers. A store to a buffer forgets all of its contents, or, for register cells
  // (which do not overlap), replaces the one that `remember` names.
  llvm::Value* content(nest::BufferId buffer, const Key& key) const;
  void remember(nest::BufferId buffer, const Key& key, llvm::Value* value);
  void forget(nest::BufferId buffer);
  // Marks a register cell's buffer as changed in this scope without forgetting its other cells.
  void changed(nest::BufferId buffer) { stack_.back().changed.insert(buffer); }

 private:
  struct Scope {
    std::map<Key, llvm::Value*> values;
    std::map<nest::BufferId, std::map<Key, llvm::Value*>> contents;
    std::set<nest::BufferId> hidden;    // contents in outer scopes are out of date
    std::set<nest::BufferId> changed;   // so are, once this scope is closed, those
    llvm::Instruction* exit = nullptr;  // where the open inner scope is entered
  };

  llvm::IRBuilderBase& ir_;
  std::vector<Scope> stack_;
};

}  // namespace tile::cpu
