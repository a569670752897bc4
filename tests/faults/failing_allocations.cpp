#include "tests/faults/failing_allocations.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

// glibc's own names of its allocator.
extern "C" {
void* __libc_malloc(size_t size) noexcept;
void* __libc_calloc(size_t count, size_t size) noexcept;
void* __libc_realloc(void* memory, size_t size) noexcept;
void* __libc_memalign(size_t alignment, size_t size) noexcept;
}

namespace tile::test {
namespace {

// Initialised before any code runs: malloc is called before constructors are.
constinit std::atomic<bool> armed{false};
constinit std::atomic<long> counted{0};
constinit long refused_number = 0;
constinit Refuse refused_kind = Refuse::one;

bool is_refused() {
  if (!armed.load(std::memory_order_relaxed)) return false;
  long number = ++counted;
  if (refused_number == 0) return false;
  bool refused = refused_kind == Refuse::one ? number == refused_number : number >= refused_number;
  if (refused) errno = ENOMEM;
  return refused;
}

}  // namespace

void arm_allocations(long number, Refuse refuse) {
  counted = 0;
  refused_number = number;
  refused_kind = refuse;
  armed = true;
}
long disarm_allocations() {
  armed = false;
  return counted;
}

}  // namespace tile::test

using tile::test::is_refused;

#pragma GCC visibility push(default)  // seen by the other libraries
extern "C" {
void* malloc(size_t size) noexcept { return is_refused() ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) noexcept {
  return is_refused() ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) noexcept {
  return is_refused() ? nullptr : __libc_realloc(memory, size);
}
void* memalign(size_t alignment, size_t size) noexcept {
  return is_refused() ? nullptr : __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) noexcept { return memalign(alignment, size); }
int posix_memalign(void** memory, size_t alignment, size_t size) noexcept {
  *memory = memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}
#pragma GCC visibility pop
