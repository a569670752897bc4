#include "runtime/engine/inspect/gdb.h"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

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
// gdb stops here, and reads the descriptor. Exported: of a stripped library gdb knows no other
// names.
[[gnu::weak, gnu::noinline, gnu::used, gnu::visibility("default")]] void
__jit_debug_register_code() {
  asm volatile("" ::: "memory");
}
[[gnu::weak, gnu::used, gnu::visibility("default")]] tile_jit_descriptor __jit_debug_descriptor = {
    1, 0, nullptr, nullptr};
}

namespace tile::gdb {
namespace {

constexpr uint32_t kRegister = 1;  // an action

// What gdb has been told of, as long as the process lives: it may attach at any time.
class Registry {
 public:
  void add(const Function& function, std::shared_ptr<const Code> code) {
    std::lock_guard lock(mutex_);
    auto [at, is_new] = told_.try_emplace(function.symbol.address);
    if (!is_new) return;
    Told& made = at->second;
    made.code = std::move(code);
    made.object = object_of(function);
    made.entry = {__jit_debug_descriptor.first, nullptr, made.object.data(), made.object.size()};
    if (made.entry.next != nullptr) made.entry.next->previous = &made.entry;
    __jit_debug_descriptor.first = __jit_debug_descriptor.relevant = &made.entry;
    __jit_debug_descriptor.action = kRegister;
    __jit_debug_register_code();
  }

 private:
  struct Told {
    std::string object;
    tile_jit_code_entry entry{};
    // Its place is no other code's: gdb would take its own breakpoints there for the old code's.
    std::shared_ptr<const Code> code;
  };

  std::mutex mutex_;
  std::map<const void*, Told> told_;  // by address
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

void tell(const Function& function, std::shared_ptr<const Code> code) {
  static Registry& all = *new Registry;
  all.add(function, std::move(code));
}

}  // namespace tile::gdb
