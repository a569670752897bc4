// The addresses of a run's tensors.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace tile {

// As many addresses as asked for; a few need no allocation.
class PointerArray {
 public:
  explicit PointerArray(size_t count) : count_(count), many_(count > kFew ? count : 0) {}
  void*& operator[](size_t i) { return data()[i]; }
  std::span<void*> all() { return {data(), count_}; }

 private:
  static constexpr size_t kFew = 16;
  void** data() { return count_ > kFew ? many_.data() : few_.data(); }
  size_t count_;
  std::array<void*, kFew> few_;
  std::vector<void*> many_;
};

}  // namespace tile
