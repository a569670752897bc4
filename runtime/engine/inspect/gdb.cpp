#include "runtime/engine/inspect/gdb.h"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

// The interface as gdb's manual has it ("JIT Compilation Interface"). LLVM defines the same names;
// where both are in one file there is to be one of each.
extern "C" {
struct tile_jit_code_entry {
  tile_jit_code_entry* next;
  tile_jit_code_entry* previous;
  const char* object;
  uint64_t bytes;
};
struct tile_jit_descriptor {
  uint32_t version;
  uint32_t action;
  tile_jit_code_entry* relevant;
  tile_jit_code_entry* first;
};
// gdb stops here, and reads the descriptor.
[[gnu::weak, gnu::noinline, gnu::used]] void __jit_debug_register_code() {
  asm volatile("" ::: "memory");
}
[[gnu::weak, gnu::used]] tile_jit_descriptor __jit_debug_descriptor = {1, 0, nullptr, nullptr};
}

namespace tile::gdb {
namespace {

constexpr uint32_t kRegister = 1, kUnregister = 2;  // actions

// What gdb has been told of. Entries stay as long as the process, as gdb may attach at any time,
// but for those whose place other code has taken.
class Registry {
 public:
  void add(const Function& function) {
    std::string object = object_of(function);
    auto begin = reinterpret_cast<uint64_t>(function.symbol.address);
    std::lock_guard lock(mutex_);
    auto known = told_.find(begin);
    if (known != told_.end() && known->second.object == object) return;
    remove(begin, begin + function.symbol.bytes);
    Told& made = told_[begin];
    made.object = std::move(object);
    made.end = begin + function.symbol.bytes;
    tile_jit_code_entry& entry = made.entry;
    entry = {__jit_debug_descriptor.first, nullptr, made.object.data(), made.object.size()};
    if (entry.next != nullptr) entry.next->previous = &entry;
    __jit_debug_descriptor.first = &entry;
    announce(kRegister, entry);
  }

 private:
  struct Told {
    std::string object;
    uint64_t end = 0;
    tile_jit_code_entry entry{};
  };

  // What lies in [begin, end), in part or as a whole.
  void remove(uint64_t begin, uint64_t end) {
    auto at = told_.lower_bound(begin);
    if (at != told_.begin() && std::prev(at)->second.end > begin) --at;
    while (at != told_.end() && at->first < end) {
      tile_jit_code_entry& entry = at->second.entry;
      if (entry.next != nullptr) entry.next->previous = entry.previous;
      (entry.previous != nullptr ? entry.previous->next : __jit_debug_descriptor.first) =
          entry.next;
      announce(kUnregister, entry);
      at = told_.erase(at);
    }
  }
  static void announce(uint32_t action, tile_jit_code_entry& entry) {
    __jit_debug_descriptor.relevant = &entry;
    __jit_debug_descriptor.action = action;
    __jit_debug_register_code();
  }

  std::mutex mutex_;
  std::map<uint64_t, Told> told_;  // by address
};

}  // namespace

bool is_on() {
  static const bool on = [] {
    const char* value = std::getenv("TILE_GDB");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return on;
}

SourcePtr lines_of(const SourcePtr& source) { return is_on() ? source : nullptr; }

void tell(const Function& function) {
  static Registry& all = *new Registry;
  all.add(function);
}

}  // namespace tile::gdb
