// Tokens of the MFG language. Line ends are tokens where they can end an expression: not inside
// round or square brackets, not after an operator or an escape, not before `|>`.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/support/diagnostic.h"

namespace tile::mfg {

enum class TokenKind : uint8_t {
  end,      // after the last token
  newline,  // one for any number of line ends
  name,     // also `mut!`
  integer,  // `integer`; `is_unsigned` with the suffix u or as a large hexadecimal number
  real,     // `real`
  string,   // `text` without the quotes
  punctuation,
};

struct Token {
  TokenKind kind = TokenKind::end;
  Span span;
  std::string_view text;
  uint64_t integer = 0;
  double real = 0;
  bool is_unsigned = false;

  bool is(std::string_view symbol) const {
    return kind == TokenKind::punctuation && text == symbol;
  }
  bool is_name(std::string_view name) const { return kind == TokenKind::name && text == name; }
};

inline constexpr size_t kMaxTokens = 500'000;

// The tokens of `text`, which must outlive them; the last one is `end`. Throws Failure: characters
// that no token starts with, malformed or too large numbers, open strings, brackets that do not
// match, text that is not UTF-8, and the limits.
std::vector<Token> tokenize(std::string_view text);

}  // namespace tile::mfg
