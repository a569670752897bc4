// What is to happen when a thread ends. A thread_local object with a destructor is the usual way,
// but the C library ends the process where it lacks the memory to note such a destructor; here that
// is a std::bad_alloc.
#pragma once

#include <cstddef>

namespace tile {

// To be a thread_local variable (constinit, without a destructor) of the thread that it is about.
struct ThreadExit {
  void (*run)(ThreadExit& self) = nullptr;
  ThreadExit* next = nullptr;
  bool noted = false;
};
// Notes that self.run is called at the end of this thread; once noted, nothing happens.
void at_thread_exit(ThreadExit& self, void (*run)(ThreadExit& self));

// Memory that a thread keeps for its next use. Aligned to 64 bytes.
class ThreadMemory : ThreadExit {
 public:
  constexpr ThreadMemory() = default;
  // At least so many bytes, whatever was in them; they stay until the next call asks for more or
  // the thread ends. Throws std::bad_alloc.
  std::byte* reserve(size_t bytes) { return bytes <= size_ ? data_ : grown(bytes); }

 private:
  std::byte* grown(size_t bytes);
  void release();
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tile
