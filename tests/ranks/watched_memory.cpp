#include "tests/ranks/watched_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace tile::test {
namespace {

// So many forbidden pieces stay: a process may have 65,530 mappings.
constexpr size_t kMostReleased = 10'000;

}  // namespace

WatchedMemory::~WatchedMemory() {
  for (const auto& [memory, mapping] : released_) munmap(mapping.first, mapping.bytes);
}

size_t WatchedMemory::live() const {
  std::lock_guard lock(mutex_);
  return live_.size();
}

void* WatchedMemory::allocate(void* user, size_t bytes, size_t alignment, void*) {
  auto& self = *static_cast<WatchedMemory*>(user);
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t whole = (bytes + page - 1) / page * page;
  void* first =
      mmap(nullptr, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (first == MAP_FAILED) return nullptr;
  std::memset(first, 0xff, whole);
  mprotect(static_cast<std::byte*>(first) + whole, page, PROT_NONE);
  void* memory = static_cast<std::byte*>(first) + (whole - bytes) / alignment * alignment;
  std::lock_guard lock(self.mutex_);
  self.live_[memory] = {first, whole + page};
  return memory;
}

void WatchedMemory::release(void* user, void* memory, size_t, void*) {
  auto& self = *static_cast<WatchedMemory*>(user);
  std::lock_guard lock(self.mutex_);
  auto at = self.live_.find(memory);
  Mapping mapping = at->second;
  self.live_.erase(at);
  if (self.released_.size() >= kMostReleased) {
    munmap(mapping.first, mapping.bytes);
    return;
  }
  mprotect(mapping.first, mapping.bytes, PROT_NONE);
  madvise(mapping.first, mapping.bytes, MADV_DONTNEED);
  self.released_[memory] = mapping;
}

}  // namespace tile::test
