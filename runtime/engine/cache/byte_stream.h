// Bytes that the library keeps for itself to read again: numbers of 64 bits and texts with their
// length, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "core/ir/bound.h"

namespace tile {

class ByteWriter {
 public:
  void number(int64_t value) { put(&value, sizeof value); }
  void number(TensorId id) { number(int64_t{id.number()}); }
  void bytes(const void* data, size_t size) {
    number(static_cast<int64_t>(size));
    put(data, size);
  }
  void text(const std::string& s) { bytes(s.data(), s.size()); }
  template <class T>
  void numbers(const std::vector<T>& list) {
    number(static_cast<int64_t>(list.size()));
    for (T value : list) number(value);
  }
  std::vector<std::byte> take() { return std::move(out_); }

 private:
  void put(const void* data, size_t size) {
    const auto* from = static_cast<const std::byte*>(data);
    out_.insert(out_.end(), from, from + size);
  }
  std::vector<std::byte> out_;
};

// Thrown for what no writer writes.
struct Damaged {};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  int64_t number() {
    int64_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  // A number of things, or the position of one, below `end`.
  size_t count(size_t end = SIZE_MAX) {
    int64_t n = number();
    if (n < 0 || static_cast<uint64_t>(n) > bytes_.size() + at_ || static_cast<size_t>(n) >= end)
      throw Damaged{};
    return static_cast<size_t>(n);
  }
  size_t size() {
    int64_t n = number();
    if (n < 0) throw Damaged{};
    return static_cast<size_t>(n);
  }
  std::span<const std::byte> bytes() { return take(count()); }
  std::string text() {
    std::span<const std::byte> s = bytes();
    return {reinterpret_cast<const char*>(s.data()), s.size()};
  }
  std::vector<int64_t> numbers() {
    std::vector<int64_t> list(count());
    for (int64_t& value : list) value = number();
    return list;
  }
  std::vector<TensorId> ids(size_t tensors) {
    std::vector<TensorId> list(count());
    for (TensorId& id : list) id = TensorId(count(tensors));
    return list;
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> take(size_t size) {
    if (size > bytes_.size()) throw Damaged{};
    std::span<const std::byte> front = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    at_ += size;
    return front;
  }
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

}  // namespace tile
