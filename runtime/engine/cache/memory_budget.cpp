#include "runtime/engine/cache/memory_budget.h"

#include <algorithm>

namespace tile {

void MemoryBudget::link(Item& item) {
  item.before_ = nullptr;
  item.after_ = newest_;
  (newest_ != nullptr ? newest_->before_ : oldest_) = &item;
  newest_ = &item;
  bytes_ += item.bytes_;
  ++count_;
}

void MemoryBudget::unlink(Item& item) {
  (item.before_ != nullptr ? item.before_->after_ : newest_) = item.after_;
  (item.after_ != nullptr ? item.after_->before_ : oldest_) = item.before_;
  bytes_ -= item.bytes_;
  --count_;
}

// A list of what had to go.
std::shared_ptr<MemoryBudget::Item> MemoryBudget::trimmed(const Item& kept) {
  std::shared_ptr<Item> gone;
  // Each is passed over once at most, while others may use what was considered already.
  for (size_t left = 2 * count_; bytes_ > limit_ && left > 0; --left) {
    Item& item = *oldest_;
    unlink(item);
    std::shared_ptr<Item> evicted;
    if (&item != &kept && !item.used()) evicted = item.evicted();
    if (!evicted) {
      link(item);
      continue;
    }
    item.bytes_ = 0;
    evicted->next_evicted_ = std::move(gone);
    gone = std::move(evicted);
    ++evictions_;
  }
  return gone;
}

void MemoryBudget::add(Item& item, size_t bytes) noexcept {
  std::shared_ptr<Item> gone;
  {
    std::lock_guard lock(mutex_);
    if (item.bytes_ != 0) unlink(item);
    item.bytes_ = std::max<size_t>(bytes, 1);
    link(item);
    gone = trimmed(item);
  }
  // Without the lock: what goes may be the last to hold an engine.
  while (gone) gone = std::move(gone->next_evicted_);
}

void MemoryBudget::remove(Item& item) noexcept {
  std::lock_guard lock(mutex_);
  if (item.bytes_ == 0) return;
  unlink(item);
  item.bytes_ = 0;
}

size_t MemoryBudget::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}
uint64_t MemoryBudget::evictions() const {
  std::lock_guard lock(mutex_);
  return evictions_;
}

}  // namespace tile
