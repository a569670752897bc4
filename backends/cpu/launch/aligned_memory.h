// Memory aligned to cache lines.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>

#include "core/support/diagnostic.h"

namespace tile::cpu {

inline constexpr std::align_val_t kMemoryAlignment{64};
struct ReleaseAligned {
  void operator()(std::byte* memory) const { ::operator delete(memory, kMemoryAlignment); }
};
using AlignedMemory = std::unique_ptr<std::byte, ReleaseAligned>;

[[noreturn]] inline void fail_memory(size_t bytes) {
  fail(Stage::run, "memory", {}, "no memory for " + std::to_string(bytes) + " bytes");
}

// Throws Failure (run, "memory").
inline AlignedMemory allocate_aligned(size_t bytes) {
  try {
    return AlignedMemory(static_cast<std::byte*>(::operator new(bytes, kMemoryAlignment)));
  } catch (const std::bad_alloc&) {
    fail_memory(bytes);
  }
}

}  // namespace tile::cpu
