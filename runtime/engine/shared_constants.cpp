#include "runtime/engine/shared_constants.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "runtime/engine/constants.h"

namespace tile {
namespace {

uint64_t hash_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::span<const std::byte> bytes_of(const ConstantMemory& memory) {
  return {memory.data(), memory.bytes()};
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

}  // namespace

SharedConstants::Memory SharedConstants::with_bytes(std::span<const std::byte> bytes) {
  return found(hash_of(bytes), bytes);
}

SharedConstants::Memory SharedConstants::found(uint64_t hash, std::span<const std::byte> bytes) {
  std::vector<Memory> alike;
  {
    std::lock_guard lock(mutex_);
    auto [begin, end] = copies_.equal_range(hash);
    for (auto at = begin; at != end; ++at) {
      if (Memory known = at->second.lock()) alike.push_back(std::move(known));
    }
  }
  auto at = std::find_if(alike.begin(), alike.end(),
                         [&](const Memory& known) { return same(bytes_of(*known), bytes); });
  return at == alike.end() ? nullptr : *at;
}

SharedConstants::Memory SharedConstants::keep(Memory copy) {
  uint64_t hash = hash_of(bytes_of(*copy));
  if (Memory known = found(hash, bytes_of(*copy))) return known;
  std::lock_guard lock(mutex_);
  drop_unused(copies_);
  copies_.emplace(hash, copy);
  return copy;
}

SharedConstants::Memory SharedConstants::packed(const void* source, const std::string& key) {
  std::lock_guard lock(mutex_);
  auto at = packed_.find({source, key});
  return at == packed_.end() ? nullptr : at->second.lock();
}

SharedConstants::Memory SharedConstants::keep_packed(const void* source, const std::string& key,
                                                     Memory copy) {
  std::lock_guard lock(mutex_);
  drop_unused(packed_);
  std::weak_ptr<const ConstantMemory>& known = packed_[{source, key}];
  if (Memory other = known.lock()) return other;
  known = copy;
  return copy;
}

template <class Table>
void SharedConstants::drop_unused(Table& table) {
  if (table.size() < drop_at_) return;
  std::erase_if(table, [](const auto& entry) { return entry.second.expired(); });
  drop_at_ = std::max(drop_at_, 2 * table.size());
}

}  // namespace tile
