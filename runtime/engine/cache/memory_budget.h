// What an engine's caches keep in memory, together: a number of bytes, beyond which the entries
// unused for longest go.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

namespace tile {

// Recency is that of a clock with two hands: an entry that was used since it was last considered is
// passed over once, so that a use costs no more than a flag. Thread safe.
class MemoryBudget {
 public:
  // An entry of a cache, owned by a pointer in that cache.
  class Item {
   public:
    Item() = default;
    virtual ~Item() = default;
    Item(const Item&) = delete;
    Item& operator=(const Item&) = delete;
    void use() {
      if (!used_.load(std::memory_order_relaxed)) used_.store(true, std::memory_order_relaxed);
    }

   protected:
    // Takes the item out of its cache and gives the cache's pointer away. Called with the budget's
    // lock: may take the cache's.
    virtual std::shared_ptr<Item> evicted() noexcept = 0;
    // Whether the item was used since this was last asked.
    virtual bool used() noexcept { return used_.exchange(false, std::memory_order_relaxed); }

   private:
    friend class MemoryBudget;
    std::atomic<bool> used_{false};
    size_t bytes_ = 0;  // 0: in no list
    Item *before_ = nullptr, *after_ = nullptr;
    std::shared_ptr<Item> next_evicted_;
  };

  explicit MemoryBudget(size_t limit) : limit_(limit) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // From now on the item counts with so many bytes; others go where there is no room. The item
  // itself stays whatever its size: somebody wants it now. No lock of a cache may be held.
  void add(Item& item, size_t bytes) noexcept;
  // The item counts no longer, as before its cache drops it.
  void remove(Item& item) noexcept;

  size_t limit() const { return limit_; }
  size_t bytes() const;
  uint64_t evictions() const;

 private:
  void link(Item& item);
  void unlink(Item& item);
  std::shared_ptr<Item> trimmed(const Item& kept);

  const size_t limit_;
  mutable std::mutex mutex_;
  size_t bytes_ = 0, count_ = 0;
  uint64_t evictions_ = 0;
  Item *newest_ = nullptr, *oldest_ = nullptr;
};

}  // namespace tile
