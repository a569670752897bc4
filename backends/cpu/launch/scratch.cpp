#include "backends/cpu/launch/scratch.h"

#include <atomic>
#include <new>

#include "backends/cpu/launch/aligned_memory.h"
#include "backends/thread_exit.h"

namespace tile::cpu {
namespace {

std::atomic<ScratchSource> other_source{nullptr};

}  // namespace

// It grows and stays. Code never waits while it uses it, so the thread runs no other code in
// between.
std::byte* scratch(size_t bytes) {
  if (ScratchSource source = other_source.load(std::memory_order_relaxed)) [[unlikely]]
    return source(bytes);
  [[gnu::tls_model("initial-exec")]] constinit thread_local ThreadMemory memory;
  try {
    return memory.reserve(bytes);
  } catch (const std::bad_alloc&) {
    fail_memory(bytes);
  }
}

void set_scratch_source(ScratchSource source) { other_source = source; }

}  // namespace tile::cpu
