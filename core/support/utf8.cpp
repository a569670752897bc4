#include "core/support/utf8.h"

#include <array>
#include <cstdint>

namespace tile {

size_t character_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t length = byte(0) < 0x80             ? 1
                  : (byte(0) & 0xE0) == 0xC0 ? 2
                  : (byte(0) & 0xF0) == 0xE0 ? 3
                  : (byte(0) & 0xF8) == 0xF0 ? 4
                                             : 0;
  if (length == 0 || length > text.size()) return 0;
  uint32_t code = length == 1 ? byte(0) : byte(0) & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3Fu);
  }
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < kLeast[length] || code > 0x10FFFF || surrogate ? 0 : length;
}

}  // namespace tile
