#include "core/language/program_text.h"

#include <array>
#include <cstdint>
#include <string>

#include "core/support/diagnostic.h"

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

void check_size(std::string_view text) {
  if (text.size() <= kMaxTextBytes) return;
  fail(Stage::parse, "limit", {},
       "the program text is longer than " + std::to_string(kMaxTextBytes) + " bytes");
}

void check_encoding(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    size_t length = character_length(text.substr(i));
    if (length == 0) {
      fail(Stage::parse, "encoding", {static_cast<uint32_t>(i), static_cast<uint32_t>(i + 1)},
           "the program text is not valid UTF-8");
    }
    i += length;
  }
}

}  // namespace tile
