// Tokens of the Tile language (core/language/tile/REFERENCE.md section 1).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/support/diagnostic.h"

namespace tile {

enum class TokenKind : uint8_t {
  end,          // after the last token
  upper_name,   // tensors and dimensions
  lower_name,   // indices and functions
  reserved,     // function, default, no_defract
  integer,      // `integer`
  real,         // `real`
  extent,       // NAME.axis: `text` is NAME, `integer` the axis
  punctuation,  // operators and brackets; `text` tells which
};

struct Token {
  TokenKind kind = TokenKind::end;
  Span span;
  std::string_view text;
  uint64_t integer = 0;
  double real = 0;

  bool is(std::string_view symbol) const {
    return (kind == TokenKind::punctuation || kind == TokenKind::reserved) && text == symbol;
  }
};

// The limits of rule 8.2 on program texts.
inline constexpr size_t kMaxTokens = 500'000;

// The tokens of `text`, which must outlive them; the last one is `end`. Throws Failure: a character
// that no token starts with, a malformed or too large number, an unterminated comment, text that is
// not UTF-8, and the limits.
std::vector<Token> tokenize(std::string_view text);

}  // namespace tile
