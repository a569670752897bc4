// Values made when first asked for, by key; shared by threads.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "backends/fork.h"
#include "runtime/engine/cache/memory_budget.h"
#include "runtime/engine/cache/text_hash.h"
#include "runtime/engine/concurrency/call_control.h"

namespace tile {

template <class Value>
class OnceMap {
 public:
  // The values count against the budget, which outlives this: what goes is made again when asked
  // for.
  explicit OnceMap(MemoryBudget& budget) : budget_(budget) {}
  ~OnceMap() {
    std::unordered_map<std::string, std::shared_ptr<Entry>, TextHash> entries;
    if (locks_are_lost()) {  // in a forked child, whose budget may still name them
      static_cast<void>(new auto(std::move(entries_)));
      return;
    }
    {
      std::lock_guard lock(mutex_);
      for (auto& [key, entry] : entries_) entry->in_table = false;
      entries.swap(entries_);
    }
    for (auto& [key, entry] : entries) budget_.remove(*entry);
  }
  OnceMap(const OnceMap&) = delete;
  OnceMap& operator=(const OnceMap&) = delete;

  // make()'s value for the key. However many threads ask, one makes it and the others wait; where
  // make() throws, the next to ask tries again. `bytes_of` tells what a value takes.
  template <class Make, class BytesOf>
  std::shared_ptr<const Value> get(const std::string& key, const Make& make,
                                   const BytesOf& bytes_of) {
    for (;;) {
      std::shared_ptr<Entry> entry = entry_of(key);
      entry->use();
      std::unique_lock lock = patient_lock(entry->mutex);
      if (entry->value) return entry->value;
      // While it is made it counts nothing and stays; what could not be made counts its key.
      budget_.remove(*entry);
      if (!is_in_table(*entry)) continue;
      try {
        entry->value = std::make_shared<const Value>(make());
      } catch (...) {
        budget_.add(*entry, 2 * key.size());
        throw;
      }
      budget_.add(*entry, 2 * key.size() + bytes_of(*entry->value));
      return entry->value;
    }
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  struct Entry : MemoryBudget::Item {
    explicit Entry(OnceMap& own) : owner(own) {}
    std::shared_ptr<Item> evicted() noexcept override { return owner.taken(*this); }
    OnceMap& owner;
    const std::string* key = nullptr;  // in the table
    bool in_table = true;              // under the owner's lock
    std::timed_mutex mutex;
    std::shared_ptr<const Value> value;
  };
  std::shared_ptr<Entry> entry_of(const std::string& key) {
    std::lock_guard lock(mutex_);
    auto [at, fresh] = entries_.try_emplace(key);
    if (!at->second) {
      at->second = std::make_shared<Entry>(*this);
      at->second->key = &at->first;
    }
    return at->second;
  }
  std::shared_ptr<Entry> taken(Entry& entry) noexcept {
    std::lock_guard lock(mutex_);
    if (!entry.in_table) return nullptr;  // the table goes
    entry.in_table = false;
    auto at = entries_.find(*entry.key);
    std::shared_ptr<Entry> out = std::move(at->second);
    entries_.erase(at);
    return out;
  }
  bool is_in_table(const Entry& entry) const {
    std::lock_guard lock(mutex_);
    return entry.in_table;
  }

  MemoryBudget& budget_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Entry>, TextHash> entries_;
};

}  // namespace tile
