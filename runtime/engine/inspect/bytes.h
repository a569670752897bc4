// Bytes put one after the other, in this machine's order: for files and objects of a fixed form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tile {

class Bytes {
 public:
  template <class T>
  Bytes& put(T value) {
    return raw(&value, sizeof value);
  }
  // With a zero behind it.
  Bytes& text(std::string_view t) {
    bytes_.append(t);
    bytes_ += '\0';
    return *this;
  }
  Bytes& raw(const void* data, size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
    return *this;
  }
  Bytes& raw(const std::string& bytes) { return raw(bytes.data(), bytes.size()); }
  // DWARF's variable length, seven bits a byte.
  Bytes& uleb(uint64_t value) {
    for (; value >= 0x80; value >>= 7) put(static_cast<uint8_t>(value | 0x80));
    return put(static_cast<uint8_t>(value));
  }
  // The same of a signed number.
  Bytes& sleb(int64_t value) {
    for (;; value >>= 7) {
      auto bits = static_cast<uint8_t>(value & 0x7f);
      bool last = value >= -0x40 && value < 0x40;
      put(static_cast<uint8_t>(last ? bits : bits | 0x80));
      if (last) return *this;
    }
  }
  const std::string& all() const { return bytes_; }
  size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

}  // namespace tile
