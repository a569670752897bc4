// Tokens of the Lift language.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/support/diagnostic.h"

namespace tile::lift {

enum class TokenKind : uint8_t { end, name, integer, real, punctuation };

struct Token {
  TokenKind kind = TokenKind::end;
  Span span;
  std::string_view text;
  int64_t integer = 0;
  double real = 0;

  bool is(std::string_view symbol) const {
    return (kind == TokenKind::punctuation || kind == TokenKind::name) && text == symbol;
  }
};

// Limits on program texts; beyond them a text is refused with a located error.
inline constexpr size_t kMaxTokens = 200'000;

// The tokens of `text`, which must outlive them; the last one is `end`. Comments are those of C++.
// Throws Failure of stage parse: a character that no token starts with, a malformed or too large
// number, an unterminated comment, a limit.
std::vector<Token> tokenize(std::string_view text);

}  // namespace tile::lift
