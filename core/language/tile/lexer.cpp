#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <string>

#include "core/language/idioms/tile_idioms.h"
#include "core/language/program_text.h"
#include "core/language/tile/token.h"
#include "core/support/control.h"

namespace tile {
namespace {

// Longest first, so that the first match is the longest.
constexpr auto kSymbols = std::to_array<std::string_view>(
    {"->", "==", "!=", "<=", ">=", "<<", ">>", "&&", "||", "(", ")", "[", "]", "{", "}", ",",
     ";",  ":",  "=",  "+",  "-",  "*",  "/",  "%",  "<",  ">", "&", "|", "^", "~", "!", "?"});
constexpr auto kReserved = std::to_array<std::string_view>({"function", "default", "no_defract"});

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_word(char c) { return is_digit(c) || is_upper(c) || is_lower(c) || c == '_'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    check_size(text_);
    check_encoding(text_);
    std::vector<Token> tokens;
    while (skip_blank()) {
      if (tokens.size() >= kMaxTokens) {
        fail(Stage::parse, "limit", span_from(at_),
             "the program has more than " + std::to_string(kMaxTokens) + " tokens");
      }
      checkpoint();
      tokens.push_back(next());
    }
    tokens.push_back({.kind = TokenKind::end, .span = span_from(at_), .text = ""});
    return tokens;
  }

 private:
  Span span_from(size_t begin) const {
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(std::max(at_, begin))};
  }
  Span span_of(size_t begin, size_t length) const {
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(begin + length)};
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }
  bool starts(std::string_view prefix) const { return text_.substr(at_).starts_with(prefix); }

  // Skips white space and comments (rule 1.2); false at the end of the text.
  bool skip_blank() {
    while (at_ < text_.size()) {
      if (is_space(peek())) {
        ++at_;
      } else if (starts("//")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (starts("/*")) {
        size_t close = text_.find("*/", at_ + 2);
        if (close == std::string_view::npos) {
          fail(Stage::parse, "lexical", span_of(at_, 2), "the comment is not closed by '*/'");
        }
        at_ = close + 2;
      } else {
        return true;
      }
    }
    return false;
  }

  Token next() {
    char c = peek();
    if (is_digit(c)) return number();
    if (is_upper(c) || is_lower(c)) return name();
    for (std::string_view symbol : kSymbols) {
      if (!starts(symbol)) continue;
      size_t begin = at_;
      at_ += symbol.size();
      return {TokenKind::punctuation, span_from(begin), text_.substr(begin, symbol.size())};
    }
    unexpected_character();
  }

  std::string_view word_from(size_t begin) const {
    size_t end = begin;
    while (end < text_.size() && is_word(text_[end])) ++end;
    return text_.substr(std::min(begin, text_.size()), end - begin);
  }

  std::string_view word_before(size_t end) const {
    size_t begin = end;
    while (begin > 0 && is_word(text_[begin - 1])) --begin;
    return text_.substr(begin, end - begin);
  }

  [[noreturn]] void unexpected_character() const {
    std::string_view shown = text_.substr(at_, character_length(text_.substr(at_)));
    std::string hint(character_hint(shown));
    bool of_value = at_ > 0 && (is_word(text_[at_ - 1]) || text_[at_ - 1] == ')');
    if (shown == "." && of_value) hint = member_hint(word_before(at_), word_from(at_ + 1));
    std::string quoted = "'" + std::string(shown) + "'";
    if (shown.size() == 1 && (shown[0] < 0x20 || shown[0] == 0x7f)) {
      char code[8];
      std::snprintf(code, sizeof code, "0x%02x", static_cast<unsigned>(shown[0]));
      quoted = code;
    }
    fail(Stage::parse, "lexical", span_of(at_, shown.size()), "unexpected character " + quoted,
         hint);
  }

  void digits() {
    while (is_digit(peek())) ++at_;
  }

  Token number() {
    size_t begin = at_;
    bool real = false;
    digits();
    if (peek() == '.' && is_digit(peek(1))) {
      real = true;
      ++at_;
      digits();
    }
    if (peek() == 'e' || peek() == 'E') {
      size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
      if (is_digit(peek(1 + sign))) {
        real = true;
        at_ += 1 + sign;
        digits();
      }
    }
    if (is_word(peek()) || peek() == '.' || peek() == '\'') malformed_number(begin);
    Token token{real ? TokenKind::real : TokenKind::integer, span_from(begin),
                text_.substr(begin, at_ - begin)};
    if (real) {
      token.real = real_value(token);
    } else {
      token.integer = integer_value(token.text, token.span);
    }
    return token;
  }

  [[noreturn]] void malformed_number(size_t begin) {
    while (is_word(peek()) || peek() == '.' || peek() == '\'') ++at_;
    std::string shown(text_.substr(begin, std::min<size_t>(at_ - begin, 40)));
    fail(Stage::parse, "lexical", span_from(begin), "'" + shown + "' is not a number",
         "floating-point numbers are written as 1.0, 1.5e-3 or 1e6; a product needs '*'");
  }

  static uint64_t integer_value(std::string_view digits, Span span) {
    uint64_t value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || value > uint64_t{1} << 63) {
      fail(Stage::parse, "limit", span, "the integer does not fit in 64 bits");
    }
    return value;
  }

  // A number too small for a double is zero; one too large is an error.
  static double real_value(const Token& token) {
    double value = 0;
    std::string_view t = token.text;
    auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), value);
    if (error == std::errc()) return value;
    bool tiny = t.find("e-") != t.npos || t.find("E-") != t.npos || t.starts_with("0.");
    if (!tiny) {
      fail(Stage::parse, "limit", token.span, "the number does not fit in a 64-bit float");
    }
    return 0;
  }

  Token name() {
    size_t begin = at_;
    bool upper = is_upper(peek());
    while (is_word(peek())) ++at_;
    if (peek() == '\'') ++at_;
    if (at_ - begin > kMaxNameBytes) {
      fail(Stage::parse, "limit", span_from(begin),
           "the name is longer than " + std::to_string(kMaxNameBytes) + " bytes");
    }
    Token token{upper ? TokenKind::upper_name : TokenKind::lower_name, span_from(begin),
                text_.substr(begin, at_ - begin)};
    if (std::find(kReserved.begin(), kReserved.end(), token.text) != kReserved.end()) {
      token.kind = TokenKind::reserved;
    }
    if (upper && peek() == '.' && is_digit(peek(1))) {
      size_t axis = ++at_;
      digits();
      if (is_word(peek()) || peek() == '.') malformed_number(axis);
      token.kind = TokenKind::extent;
      token.span = span_from(begin);
      token.integer = integer_value(text_.substr(axis, at_ - axis), token.span);
    }
    return token;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text) { return Lexer(text).run(); }

}  // namespace tile
