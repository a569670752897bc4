#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "core/language/idioms/mfg_idioms.h"
#include "core/language/mfg/token.h"
#include "core/language/program_text.h"
#include "core/support/control.h"

namespace tile::mfg {
namespace {

// Longest first, so that the first match is the longest.
constexpr auto kSymbols = std::to_array<std::string_view>(
    {"...", "..<", "|>", "||", "&&", "==", "!=", "<=", ">=", "<<", ">>", "+=",
     "(",   ")",   "[",  "]",  "{",  "}",  ",",  ":",  "=",  "+",  "-",  "*",
     "/",   "%",   "^",  "<",  ">",  "&",  "|",  "!",  ".",  "@"});

// After one of these an expression is unfinished, and the line end means nothing.
constexpr auto kUnfinished = std::to_array<std::string_view>(
    {"..<", "|>", "||", "&&", "==", "!=", "<=", ">=", "<<", ">>", "+=", ",", ":",
     "=",   "+",  "-",  "*",  "/",  "%",  "^",  "<",  ">",  "&",  "|",  "!", "{"});

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_digit(c) || is_word_start(c); }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

char closing(char open) { return open == '(' ? ')' : open == '[' ? ']' : '}'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    check_size(text_);
    check_encoding(text_);
    while (skip_blank()) {
      if (tokens_.size() >= kMaxTokens) {
        fail(Stage::parse, "limit", span_from(at_),
             "the program has more than " + std::to_string(kMaxTokens) + " tokens");
      }
      checkpoint();
      next();
    }
    if (!open_.empty()) {
      fail(Stage::parse, "syntax", span_of(open_.back(), 1),
           std::string("the bracket '") + text_[open_.back()] + "' is not closed by '" +
               closing(text_[open_.back()]) + "'");
    }
    tokens_.push_back({.kind = TokenKind::end, .span = span_from(at_), .text = ""});
    return std::move(tokens_);
  }

 private:
  Span span_from(size_t begin) const {
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(std::max(at_, begin))};
  }
  static Span span_of(size_t begin, size_t length) {
    return {static_cast<uint32_t>(begin), static_cast<uint32_t>(begin + length)};
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : 0; }
  bool starts(std::string_view prefix) const { return text_.substr(at_).starts_with(prefix); }

  // Skips white space, comments and escaped line ends; false at the end of the text.
  bool skip_blank() {
    while (at_ < text_.size()) {
      if (is_blank(peek())) {
        ++at_;
      } else if (peek() == '\n') {
        line_end();
        ++at_;
      } else if (peek() == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (peek() == '\\') {
        escape();
      } else {
        return true;
      }
    }
    return false;
  }

  void escape() {
    size_t begin = at_++;
    while (is_blank(peek())) ++at_;
    if (peek() != '\n') {
      fail(Stage::parse, "lexical", span_of(begin, 1), "'\\' stands at the end of a line only",
           "it joins the line with the next one");
    }
    ++at_;
  }

  void line_end() {
    if (!open_.empty() && text_[open_.back()] != '{') return;
    if (tokens_.empty() || tokens_.back().kind == TokenKind::newline) return;
    const Token& last = tokens_.back();
    bool unfinished =
        last.kind == TokenKind::punctuation &&
        std::find(kUnfinished.begin(), kUnfinished.end(), last.text) != kUnfinished.end();
    if (!unfinished) tokens_.push_back({TokenKind::newline, span_of(at_, 1), "line end"});
  }

  void next() {
    char c = peek();
    if (is_digit(c)) {
      number();
    } else if (is_word_start(c)) {
      name();
    } else if (c == '"') {
      string();
    } else {
      symbol();
    }
  }

  void symbol() {
    auto found = std::find_if(kSymbols.begin(), kSymbols.end(),
                              [&](std::string_view symbol) { return starts(symbol); });
    if (found == kSymbols.end()) unexpected_character();
    if (starts("//") || starts("/*")) {
      fail(Stage::parse, "lexical", span_of(at_, 2),
           "unexpected '" + std::string(text_.substr(at_, 2)) + "'",
           "a comment begins with # and ends with its line");
    }
    size_t begin = at_;
    at_ += found->size();
    if (*found == "|>" && !tokens_.empty() && tokens_.back().kind == TokenKind::newline) {
      tokens_.pop_back();
    }
    bracket(begin);
    tokens_.push_back({TokenKind::punctuation, span_from(begin), *found});
  }

  void bracket(size_t at) {
    char c = text_[at];
    if (c == '(' || c == '[' || c == '{') open_.push_back(at);
    if (c != ')' && c != ']' && c != '}') return;
    if (open_.empty()) {
      fail(Stage::parse, "syntax", span_of(at, 1),
           std::string("'") + c + "' closes nothing: no bracket is open here");
    }
    char open = text_[open_.back()];
    if (closing(open) != c) {
      fail(Stage::parse, "syntax", span_of(at, 1),
           std::string("expected '") + closing(open) + "' to close the bracket '" + open +
               "' of line " + std::to_string(line_of(open_.back())) + ", found '" + c + "'");
    }
    open_.pop_back();
  }

  long line_of(size_t at) const {
    return 1 + std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(at), '\n');
  }

  [[noreturn]] void unexpected_character() const {
    std::string_view shown = text_.substr(at_, character_length(text_.substr(at_)));
    bool control = shown.size() == 1 && (shown[0] < 0x20 || shown[0] == 0x7f);
    std::string quoted =
        control ? "with code " + std::to_string(int{shown[0]}) : "'" + std::string(shown) + "'";
    fail(Stage::parse, "lexical", span_of(at_, shown.size()), "unexpected character " + quoted,
         std::string(character_hint(shown)));
  }

  void string() {
    size_t begin = at_++;
    while (peek() != '"') {
      if (peek() == '\n' || at_ >= text_.size()) {
        fail(Stage::parse, "lexical", span_of(begin, 1), "the string is not closed by '\"'");
      }
      ++at_;
    }
    ++at_;
    tokens_.push_back(
        {TokenKind::string, span_from(begin), text_.substr(begin + 1, at_ - begin - 2)});
  }

  void name() {
    size_t begin = at_;
    while (is_word(peek())) ++at_;
    if (text_.substr(begin, at_ - begin) == "mut" && peek() == '!' && peek(1) != '=') ++at_;
    if (at_ - begin > kMaxNameBytes) {
      fail(Stage::parse, "limit", span_from(begin),
           "the name is longer than " + std::to_string(kMaxNameBytes) + " bytes");
    }
    tokens_.push_back({TokenKind::name, span_from(begin), text_.substr(begin, at_ - begin)});
  }

  void digits() {
    while (is_digit(peek())) ++at_;
  }

  void number() {
    size_t begin = at_;
    bool component = !tokens_.empty() && tokens_.back().is(".");  // t.4.xy has no real number
    if (starts("0x") || starts("0X")) {
      at_ += 2;
      while (std::isxdigit(static_cast<unsigned char>(peek())) != 0) ++at_;
      integer(begin, 16);
      return;
    }
    digits();
    bool real = !component && peek() == '.' && is_digit(peek(1));
    if (real) {
      ++at_;
      digits();
    }
    if (!component && (peek() == 'e' || peek() == 'E')) real = exponent() || real;
    if (!real) {
      integer(begin, 10);
      return;
    }
    if (is_word(peek())) malformed_number(begin);
    Token token{TokenKind::real, span_from(begin), text_.substr(begin, at_ - begin)};
    token.real = real_value(token);
    tokens_.push_back(token);
  }

  bool exponent() {
    size_t sign = peek(1) == '+' || peek(1) == '-' ? 1 : 0;
    if (!is_digit(peek(1 + sign))) return false;
    at_ += 1 + sign;
    digits();
    return true;
  }

  void integer(size_t begin, int base) {
    std::string_view digits_of = text_.substr(begin, at_ - begin);
    if (base == 16) digits_of.remove_prefix(2);
    Token token{TokenKind::integer, {}, {}};
    token.is_unsigned = peek() == 'u';
    if (token.is_unsigned) ++at_;
    if (is_word(peek()) || digits_of.empty()) malformed_number(begin);
    token.span = span_from(begin);
    token.text = text_.substr(begin, at_ - begin);
    auto [end, error] =
        std::from_chars(digits_of.data(), digits_of.data() + digits_of.size(), token.integer, base);
    if (error != std::errc() || token.integer > 0xffffffffu) {
      fail(Stage::parse, "limit", token.span, "the integer does not fit in 32 bits");
    }
    if (base == 16 && token.integer > 0x7fffffffu) token.is_unsigned = true;
    tokens_.push_back(token);
  }

  [[noreturn]] void malformed_number(size_t begin) {
    while (is_word(peek())) ++at_;
    std::string shown(text_.substr(begin, std::min<size_t>(at_ - begin, 40)));
    fail(Stage::parse, "lexical", span_from(begin), "'" + shown + "' is not a number",
         "numbers are written as 1, 1u, 0xff, 0xffu or 1.0");
  }

  static double real_value(const Token& token) {
    float value = 0;
    std::string_view t = token.text;
    auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), value);
    if (error == std::errc()) return static_cast<double>(value);
    bool tiny = t.find("e-") != t.npos || t.find("E-") != t.npos || t.starts_with("0.");
    if (!tiny) fail(Stage::parse, "limit", token.span, "the number does not fit in an f32");
    return 0;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<size_t> open_;  // positions of open brackets
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text) { return Lexer(text).run(); }

}  // namespace tile::mfg
