// What the texts of every language have in common: limits, and UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/support/utf8.h"

namespace tile {

inline constexpr size_t kMaxTextBytes = size_t{4} << 20;
inline constexpr size_t kMaxNameBytes = 255;

// Throws Failure of stage parse: a text longer than kMaxTextBytes (code "limit").
void check_size(std::string_view text);
// Throws Failure of stage parse: text that is not UTF-8 (code "encoding").
void check_encoding(std::string_view text);

}  // namespace tile
