// A counter of something so frequent that a locked instruction would cost more than the rest of it.
#pragma once

#include <atomic>
#include <cstdint>

namespace tile {

// The first thread that counts does so without a locked instruction, the others with one; no event
// is lost.
class EventCount {
 public:
  void add() {
    if (owner_.load(std::memory_order_relaxed) != this_thread() && !take()) {
      others_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    // Nobody else writes it.
    owners_.store(owners_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  uint64_t value() const {
    return owners_.load(std::memory_order_relaxed) + others_.load(std::memory_order_relaxed);
  }

 private:
  bool take() {
    const void* nobody = nullptr;
    return owner_.load(std::memory_order_relaxed) == nobody &&
           owner_.compare_exchange_strong(nobody, this_thread());
  }
  // What pthread_self() is too, without the call into the C library.
  static const void* this_thread() { return __builtin_thread_pointer(); }
  std::atomic<const void*> owner_{nullptr};
  std::atomic<uint64_t> owners_{0}, others_{0};
};

}  // namespace tile
