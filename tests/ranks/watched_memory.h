// Memory for an engine whose use beyond its life ends the process.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "backends/host_services.h"

namespace tile::test {

// An allocator. Its memory is full of bits that no value has, ends before a forbidden page, and is
// forbidden itself once it is released. It must outlive what uses it; what is never released stays.
class WatchedMemory {
 public:
  ~WatchedMemory();
  Allocator allocator() { return {allocate, release, this}; }
  size_t live() const;  // pieces that are not released

 private:
  static void* allocate(void* user, size_t bytes, size_t alignment, void* stream);
  static void release(void* user, void* memory, size_t bytes, void* stream);

  struct Mapping {
    void* first = nullptr;
    size_t bytes = 0;
  };
  mutable std::mutex mutex_;
  std::map<void*, Mapping> live_, released_;
};

}  // namespace tile::test
