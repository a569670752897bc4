#include "tests/executors/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>
#include <stdexcept>

namespace tile::test {
namespace {

// Forbidden on each side, so that what strides past the end by rows falls on it, too. Address space
// alone: nothing is stored there.
constexpr size_t kForbidden = 1 << 20;
constexpr size_t kMost = 4096;  // memories at a time

size_t page() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}
size_t whole_pages(size_t bytes) { return (bytes + page() - 1) / page() * page(); }

// What the signal's handler knows of a memory. A slot is taken where `begin` is not zero.
struct Slot {
  std::atomic<uintptr_t> begin{0}, end{0};     // with the forbidden pages
  std::atomic<uintptr_t> touched{0};           // the first address; 0: none
  std::atomic<uintptr_t> first{0}, behind{0};  // accessible
  std::atomic<int> poison{0};
  uintptr_t data = 0;
  size_t bytes = 0;
  std::string name;
};

std::array<Slot, kMost>& slots() {
  static auto* all = new std::array<Slot, kMost>;  // threads may end after statics are gone
  return *all;
}
std::mutex slots_mutex;
struct sigaction previous;

bool survive(Slot& slot, uintptr_t address) {
  uintptr_t begin = slot.begin.load();
  if (begin == 0 || address < begin || address >= slot.end.load()) return false;
  uintptr_t none = 0;
  slot.touched.compare_exchange_strong(none, address);
  uintptr_t at = address / page() * page();
  if (mprotect(reinterpret_cast<void*>(at), page(), PROT_READ | PROT_WRITE) != 0) return false;
  bool forbidden = address < slot.first.load() || address >= slot.behind.load();
  if (forbidden) std::memset(reinterpret_cast<void*>(at), slot.poison.load(), page());
  return true;
}

// Calls what POSIX allows in a handler, and mprotect.
void on_fault(int, siginfo_t* info, void*) {
  auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Slot& slot : slots()) {
    if (survive(slot, address)) return;
  }
  sigaction(SIGSEGV, &previous, nullptr);  // the instruction faults again, for whom it was before
}

void install_handler() {
  static const bool installed = [] {
    slots();
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    return sigaction(SIGSEGV, &action, &previous) == 0;
  }();
  if (!installed) throw std::runtime_error("no handler of SIGSEGV");
}

std::string described(const Slot& slot, uintptr_t touched) {
  std::string where;
  if (touched < slot.data) {
    where = std::to_string(slot.data - touched) + " bytes before its start";
  } else if (touched >= slot.data + slot.bytes) {
    where = std::to_string(touched - slot.data - slot.bytes) + " bytes past its end";
  } else {
    where = "at byte " + std::to_string(touched - slot.data) + ", where it is only read";
  }
  return slot.name + " of " + std::to_string(slot.bytes) + " bytes is touched " + where + "\n";
}

}  // namespace

GuardedMemory::GuardedMemory(std::string name, size_t bytes, Edge edge, std::byte poison,
                             size_t alignment) {
  install_handler();
  size_t padded = (bytes + alignment - 1) / alignment * alignment;
  accessible_ = whole_pages(padded);
  mapped_ = accessible_ + 2 * kForbidden;
  void* mapping = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<std::byte*>(mapping);
  first_ = mapping_ + kForbidden;
  data_ = edge == Edge::start ? first_ : first_ + accessible_ - padded;
  if (accessible_ != 0) {
    if (mprotect(first_, accessible_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    std::memset(first_, std::to_integer<int>(poison), accessible_);
  }
  std::lock_guard lock(slots_mutex);
  while (slot_ < kMost && slots()[slot_].begin != 0) ++slot_;
  if (slot_ == kMost) throw std::runtime_error("too many guarded memories");
  Slot& slot = slots()[slot_];
  slot.name = std::move(name);
  slot.data = reinterpret_cast<uintptr_t>(data_);
  slot.bytes = bytes;
  slot.touched = 0;
  slot.poison = std::to_integer<int>(poison);
  slot.first = reinterpret_cast<uintptr_t>(first_);
  slot.behind = slot.first + accessible_;
  slot.end = reinterpret_cast<uintptr_t>(mapping_) + mapped_;
  slot.begin = reinterpret_cast<uintptr_t>(mapping_);
}

GuardedMemory::~GuardedMemory() {
  {
    std::lock_guard lock(slots_mutex);
    slots()[slot_].begin = 0;
  }
  munmap(mapping_, mapped_);
}

void GuardedMemory::make_read_only() {
  if (accessible_ != 0) mprotect(first_, accessible_, PROT_READ);
}

std::string touches() {
  std::lock_guard lock(slots_mutex);
  std::string all;
  for (Slot& slot : slots()) {
    uintptr_t touched = slot.begin == 0 ? 0 : slot.touched.exchange(0);
    if (touched != 0) all += described(slot, touched);
  }
  return all;
}

}  // namespace tile::test
