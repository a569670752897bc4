// Small things that every rank tells every other one.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/transport/transport.h"

namespace tile {

// What every rank has, rank 0's first; all have as many bytes. All ranks together. Throws Failure.
std::vector<std::byte> bytes_of_all(Transport& transport, std::span<const std::byte> own,
                                    const std::string& what);

// The same of one plain value.
template <class T>
std::vector<T> told_by_all(Transport& transport, const T& own, const std::string& what) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<std::byte> bytes = bytes_of_all(transport, std::as_bytes(std::span(&own, 1)), what);
  std::vector<T> all(transport.ranks());
  std::memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

}  // namespace tile
