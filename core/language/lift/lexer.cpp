#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "core/language/idioms/lift_idioms.h"
#include "core/language/lift/token.h"
#include "core/language/program_text.h"
#include "core/support/control.h"

namespace tile::lift {
namespace {

// Longest first, so that the first match is the longest.
constexpr auto kSymbols = std::to_array<std::string_view>(
    {"=>", "==", "!=", "<=", ">=", "&&", "||", "(", ")", ",", ";", "=",
     "$",  "+",  "-",  "*",  "/",  "%",  "<",  ">", "!", "?", ":"});

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    check_size(text_);
    std::vector<Token> tokens;
    while (skip_blank()) {
      if (tokens.size() >= kMaxTokens) {
        fail(Stage::parse, "limit", span_from(at_),
             "the program has more than " + std::to_string(kMaxTokens) + " tokens");
      }
      checkpoint();
      tokens.push_back(next());
    }
    tokens.push_back({TokenKind::end, span_from(at_), "", 0, 0});
    return tokens;
  }

 private:
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }
  Span span_from(size_t begin) const {
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(at_)};
  }
  bool starts(std::string_view prefix) const { return text_.substr(at_).starts_with(prefix); }

  // To the next token; false at the end.
  bool skip_blank() {
    while (at_ < text_.size()) {
      if (is_space(peek())) {
        ++at_;
      } else if (starts("//")) {
        while (at_ < text_.size() && peek() != '\n') ++at_;
      } else if (starts("/*")) {
        size_t close = text_.find("*/", at_ + 2);
        if (close == std::string_view::npos) {
          fail(Stage::parse, "syntax", {static_cast<uint32_t>(at_), static_cast<uint32_t>(at_ + 2)},
               "this comment does not end: expected */");
        }
        at_ = close + 2;
      } else {
        return true;
      }
    }
    return false;
  }

  Token next() {
    if (is_letter(peek())) return name();
    if (is_digit(peek()) || (peek() == '.' && is_digit(peek(1)))) return number();
    for (std::string_view symbol : kSymbols) {
      if (!starts(symbol)) continue;
      size_t begin = at_;
      at_ += symbol.size();
      return {TokenKind::punctuation, span_from(begin), text_.substr(begin, symbol.size()), 0, 0};
    }
    size_t begin = at_++;
    while (at_ < text_.size() && (static_cast<unsigned char>(peek()) & 0xC0) == 0x80) ++at_;
    // Behind a value it is an element that is meant, elsewhere a type or a list.
    bool behind_value = begin > 0 && (is_letter(text_[begin - 1]) || is_digit(text_[begin - 1]) ||
                                      text_[begin - 1] == ')');
    std::string hint(symbol_hint(text_.substr(begin, at_ - begin)));
    if (text_[begin] == '[') {
      hint = behind_value ? "an element of an array is At(1) $ w"
                          : "the type of an array is ArrayType(Float, N)";
    }
    fail(Stage::parse, "syntax", span_from(begin),
         "no token starts with this character: expected a name, a number or an operator", hint);
  }

  Token name() {
    size_t begin = at_;
    while (is_letter(peek()) || is_digit(peek())) ++at_;
    if (at_ - begin > kMaxNameBytes) {
      fail(Stage::parse, "limit", span_from(begin),
           "this name is longer than " + std::to_string(kMaxNameBytes) + " bytes");
    }
    return {TokenKind::name, span_from(begin), text_.substr(begin, at_ - begin), 0, 0};
  }

  void digits() {
    while (is_digit(peek())) ++at_;
  }

  Token number() {
    size_t begin = at_;
    bool real = false;
    digits();
    if (peek() == '.') {
      real = true;
      ++at_;
      digits();
    }
    size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if ((peek() == 'e' || peek() == 'E') && is_digit(peek(1 + sign))) {
      real = true;
      at_ += 1 + sign;
      digits();
    }
    std::string_view text = text_.substr(begin, at_ - begin);
    if (peek() == 'f' || peek() == 'F') {
      real = true;
      ++at_;
    }
    if (is_letter(peek()) || is_digit(peek())) {
      ++at_;
      fail(Stage::parse, "number", span_from(begin), "this is not a number");
    }
    return real ? real_token(begin, text) : integer_token(begin, text);
  }

  Token real_token(size_t begin, std::string_view text) const {
    double value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() ||
        !std::isfinite(static_cast<float>(value))) {
      fail(Stage::parse, "number", span_from(begin), "this number does not fit in a Float");
    }
    return {TokenKind::real, span_from(begin), text_.substr(begin, at_ - begin), 0, value};
  }

  Token integer_token(size_t begin, std::string_view text) const {
    int64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      fail(Stage::parse, "number", span_from(begin), "this number does not fit in 64 bits");
    }
    return {TokenKind::integer, span_from(begin), text, value, 0};
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text) { return Lexer(text).run(); }

}  // namespace tile::lift
