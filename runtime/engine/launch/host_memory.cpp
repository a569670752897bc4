#include "runtime/engine/launch/host_memory.h"

#include <cstdint>
#include <new>
#include <utility>

#include "runtime/engine/engine.h"

namespace tile {
namespace {

constexpr std::align_val_t kAlignment{kHostAlignment};
constexpr size_t kDeviceAlignment = 256;

std::byte* given_by(const Allocator& host, size_t bytes) {
  void* memory = host.allocate(host.user, bytes, kHostAlignment, nullptr);
  if (memory == nullptr) {
    fail(Stage::run, "memory", {},
         "the host's allocator gave no " + std::to_string(bytes) + " bytes");
  }
  if (reinterpret_cast<uintptr_t>(memory) % kHostAlignment != 0) {
    host.release(host.user, memory, bytes, nullptr);
    fail(Stage::run, "argument", {},
         "the host's allocator gave memory that is not aligned to " +
             std::to_string(kHostAlignment) + " bytes");
  }
  return static_cast<std::byte*>(memory);
}

}  // namespace

size_t workspace_alignment(const Engine& engine) {
  return engine.session() == nullptr ? kHostAlignment : kDeviceAlignment;
}

HostMemory::HostMemory(const Engine& engine, size_t bytes) : engine_(&engine), bytes_(bytes) {
  if (bytes == 0) return;
  const Allocator& host = engine.options().host_allocator;
  data_ = host.is_given() ? given_by(host, bytes)
                          : static_cast<std::byte*>(::operator new(bytes, kAlignment));
}
HostMemory::HostMemory(HostMemory&& other) noexcept
    : engine_(other.engine_), bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}
HostMemory::~HostMemory() {
  if (data_ == nullptr) return;
  const Allocator& host = engine_->options().host_allocator;
  if (host.is_given()) {
    host.release(host.user, data_, bytes_, nullptr);
  } else {
    ::operator delete(data_, kAlignment);
  }
}

}  // namespace tile
