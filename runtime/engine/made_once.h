// Values made when first asked for, by key; shared by threads.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace tile {

template <class Value>
class MadeOnce {
 public:
  // make()'s value for the key. However many threads ask, one makes it and the others wait; where
  // make() throws, the next to ask tries again.
  template <class Make>
  std::shared_ptr<const Value> get(const std::string& key, const Make& make) {
    std::shared_ptr<Entry> entry = entry_of(key);
    std::lock_guard lock(entry->mutex);
    if (!entry->value) entry->value = std::make_shared<const Value>(make());
    return entry->value;
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  struct Entry {
    std::mutex mutex;
    std::shared_ptr<const Value> value;
  };
  std::shared_ptr<Entry> entry_of(const std::string& key) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<Entry>& slot = entries_[key];
    if (!slot) slot = std::make_shared<Entry>();
    return slot;
  }

  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Entry>> entries_;
};

}  // namespace tile
