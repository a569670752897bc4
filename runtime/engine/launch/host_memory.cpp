#include "runtime/engine/launch/host_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

#include "backends/host_calls.h"
#include "runtime/engine/engine.h"

namespace tile {
namespace {

constexpr std::align_val_t kAlignment{kHostAlignment};
constexpr size_t kDeviceAlignment = 256;
constexpr uintptr_t kLargePage = uintptr_t{1} << 21;  // bytes; of x86-64

// A run's temporaries are new memory, of which each page is a fault when it is first touched: fewer
// where the kernel gives large ones for the asking, and fewer translations to look up later.
std::byte* in_large_pages(std::byte* data, size_t bytes) {
  auto begin = (reinterpret_cast<uintptr_t>(data) + kLargePage - 1) / kLargePage * kLargePage;
  auto end = (reinterpret_cast<uintptr_t>(data) + bytes) / kLargePage * kLargePage;
  // Where it fails the pages are small.
  if (begin < end)
    static_cast<void>(madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE));
  return data;
}

}  // namespace

size_t workspace_alignment(const Engine& engine) {
  return engine.session() == nullptr ? kHostAlignment : kDeviceAlignment;
}

HostMemory::HostMemory(const Engine& engine, size_t bytes) : engine_(&engine), bytes_(bytes) {
  if (bytes == 0) return;
  const Allocator& host = engine.options().host_allocator;
  if (host.is_given()) {
    void* given = take_memory(host, bytes, kHostAlignment, nullptr, "memory");
    data_ = static_cast<std::byte*>(given);
  } else {
    data_ = in_large_pages(static_cast<std::byte*>(::operator new(bytes, kAlignment)), bytes);
  }
}
HostMemory::HostMemory(HostMemory&& other) noexcept
    : engine_(other.engine_), bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}
HostMemory::~HostMemory() {
  if (data_ == nullptr) return;
  const Allocator& host = engine_->options().host_allocator;
  if (host.is_given()) {
    give_back_memory(host, data_, bytes_, nullptr);
  } else {
    ::operator delete(data_, kAlignment);
  }
}

}  // namespace tile
