#include "runtime/engine/launch/host_memory.h"

#include <new>
#include <utility>

#include "backends/host_calls.h"
#include "runtime/engine/engine.h"

namespace tile {
namespace {

constexpr std::align_val_t kAlignment{kHostAlignment};
constexpr size_t kDeviceAlignment = 256;

}  // namespace

size_t workspace_alignment(const Engine& engine) {
  return engine.session() == nullptr ? kHostAlignment : kDeviceAlignment;
}

HostMemory::HostMemory(const Engine& engine, size_t bytes) : engine_(&engine), bytes_(bytes) {
  if (bytes == 0) return;
  const Allocator& host = engine.options().host_allocator;
  data_ = static_cast<std::byte*>(host.is_given()
                                      ? take_memory(host, bytes, kHostAlignment, nullptr, "memory")
                                      : ::operator new(bytes, kAlignment));
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
