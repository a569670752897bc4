// Copies of constants and what kernels read of them packed, shared by the executables of an engine:
// another size of a program has the same weights.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>

namespace tile {

class ConstantMemory;

// Owns nothing: what no executable uses any more goes. Thread safe.
class SharedConstants {
 public:
  using Memory = std::shared_ptr<const ConstantMemory>;

  // A copy of the same bytes; null: there is none.
  Memory with_bytes(std::span<const std::byte> bytes);
  // What is to be used of the copy: itself, or one of the same bytes that another thread was faster
  // with.
  Memory keep(Memory copy);

  // What the code with this key made of the constant at `source`, and the same of it.
  Memory packed(const void* source, const std::string& key);
  Memory keep_packed(const void* source, const std::string& key, Memory copy);

 private:
  // The copy of these bytes, whose hash this is; null: there is none.
  Memory found(uint64_t hash, std::span<const std::byte> bytes);
  template <class Table>
  void drop_unused(Table& table);

  std::mutex mutex_;
  std::unordered_multimap<uint64_t, std::weak_ptr<const ConstantMemory>> copies_;  // by hash
  std::map<std::pair<const void*, std::string>, std::weak_ptr<const ConstantMemory>> packed_;
  size_t drop_at_ = 64;  // entries
};

}  // namespace tile
