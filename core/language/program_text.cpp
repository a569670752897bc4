#include "core/language/program_text.h"

#include <cstdint>
#include <string>

#include "core/support/diagnostic.h"

namespace tile {

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
