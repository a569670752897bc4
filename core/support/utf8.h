// Characters of UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace tile {

// The length of the UTF-8 character at the start of `text`, which is not empty; 0 if it is
// malformed.
size_t character_length(std::string_view text);

}  // namespace tile
