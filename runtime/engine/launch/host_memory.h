// Memory of the host for what the library keeps beside a caller's tensors.
#pragma once

#include <cstddef>

namespace tile {

class Engine;

// What every piece of memory that a launch is given begins at a multiple of, in bytes: a cache
// line, and the widest vector.
inline constexpr size_t kHostAlignment = 64;

// The same for the memory of a run's temporaries where the engine runs: on a device, of its pool's.
size_t workspace_alignment(const Engine& engine);

// From the engine's allocator, else from the C++ library. The engine must outlive it.
class HostMemory {
 public:
  HostMemory() = default;
  // Throws Failure (run: "memory"; "argument" where the host's allocator gave what is not aligned).
  HostMemory(const Engine& engine, size_t bytes);
  ~HostMemory();
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&&) = delete;
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  std::byte* data() const { return data_; }

 private:
  const Engine* engine_ = nullptr;
  size_t bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace tile
