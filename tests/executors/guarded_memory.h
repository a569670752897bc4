// Memory between pages that nobody may touch: what is read or written beside it is seen, named and
// survived. (Linux: mmap, and a handler of SIGSEGV that makes the touched page accessible.)
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace tile::test {

// Which end of the memory stands against a forbidden page. Behind the other end the rest of its
// page is accessible and full of poison.
enum class Edge : uint8_t { start, end };

class GuardedMemory {
 public:
  // `name` is what a touch is reported with. All accessible bytes are `poison`. With Edge::end the
  // memory begins at a multiple of `alignment`, and ends less than that before the forbidden page.
  GuardedMemory(std::string name, size_t bytes, Edge edge, std::byte poison, size_t alignment = 1);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  std::byte* data() const { return data_; }
  // Everything between the two forbidden pages.
  std::span<std::byte> accessible() const { return {first_, accessible_}; }
  // From now on a write is a touch, too.
  void make_read_only();

 private:
  std::byte* mapping_ = nullptr;
  size_t mapped_ = 0, accessible_ = 0;
  std::byte *first_ = nullptr, *data_ = nullptr;
  size_t slot_ = 0;
};

// The first touch of each memory that lives now, in words, since the last call; empty: none.
std::string touches();

}  // namespace tile::test
