// Reads what to_string prints: C precedence with min, max, floordiv and mod as calls.
#include <algorithm>
#include <charconv>

#include "core/simplify/expr.h"
#include "core/support/checked.h"
#include "core/support/diagnostic.h"

namespace tile {
namespace {

constexpr int kMaxDepth =
    1000;  // of nested operands; deeper text is an error, not a stack overflow
constexpr size_t kMaxTokens = 10000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}
bool is_name_part(char c) { return is_name_start(c) || is_digit(c) || c == '.' || c == '\''; }

class ExprParser {
 public:
  explicit ExprParser(std::string_view text) : text_(text) {}

  Expr parse_all() {
    Expr e = parse_select();
    skip_space();
    if (at_ != text_.size()) error("expected the end of the expression");
    return e;
  }

 private:
  [[noreturn]] void error(const std::string& message, const char* code = "syntax") {
    auto begin = static_cast<uint32_t>(std::min(at_, text_.size()));
    uint32_t end = begin < text_.size() ? begin + 1 : begin;
    fail(Stage::parse, code, {begin, end}, message);
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) {
      ++at_;
    }
  }
  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    if (++tokens_ > kMaxTokens) error("the expression is too long", "limit");
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) error("expected '" + std::string(token) + "'");
  }

  // Nesting of the parser's own recursion.
  struct Nested {
    explicit Nested(ExprParser& p) : parser(p) {
      if (++parser.depth_ > kMaxDepth) parser.error("the expression nests too deeply", "limit");
    }
    ~Nested() { --parser.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ExprParser& parser;
  };

  Expr parse_select() {
    Nested nested(*this);
    Expr condition = parse_comparison();
    if (!accept("?")) return condition;
    Expr a = parse_select();
    expect(":");
    return tile::select(condition, a, parse_select());
  }

  Expr parse_comparison() {
    Expr a = parse_sum();
    if (accept("==")) return equal(a, parse_sum());
    if (accept("<=")) return less(a, parse_sum() + 1);
    if (accept(">=")) return less(parse_sum(), a + 1);
    if (accept("<")) return less(a, parse_sum());
    if (accept(">")) return less(parse_sum(), a);
    return a;
  }

  Expr parse_sum() {
    Expr a = parse_product();
    while (true) {
      if (accept("+")) {
        a = a + parse_product();
      } else if (accept("-")) {
        a = a - parse_product();
      } else {
        return a;
      }
    }
  }

  Expr parse_product() {
    Expr a = parse_unary();
    while (true) {
      if (accept("*")) {
        a = a * parse_unary();
      } else if (accept("/")) {
        a = trunc_div(a, parse_unary());
      } else if (accept("%")) {
        a = trunc_mod(a, parse_unary());
      } else {
        return a;
      }
    }
  }

  Expr parse_unary() {
    if (!accept("-")) return parse_primary();
    skip_space();
    if (at_ < text_.size() && is_digit(text_[at_])) return parse_number(true);
    Nested nested(*this);
    return -parse_unary();
  }

  Expr parse_number(bool negative) {
    size_t end = at_;
    while (end < text_.size() && is_digit(text_[end])) ++end;
    std::string digits = (negative ? "-" : "") + std::string(text_.substr(at_, end - at_));
    int64_t value = 0;
    auto [last, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (status != std::errc()) error("the number does not fit in 64 bits", "overflow");
    at_ = end;
    return value;
  }

  Expr parse_primary() {
    skip_space();
    if (at_ == text_.size()) error("expected an expression");
    if (is_digit(text_[at_])) return parse_number(false);
    if (is_name_start(text_[at_])) return parse_name();
    if (!accept("(")) error("expected an expression");
    Expr e = parse_select();
    expect(")");
    return e;
  }

  Expr parse_name() {
    size_t begin = at_;
    while (at_ < text_.size() && is_name_part(text_[at_])) ++at_;
    std::string_view name = text_.substr(begin, at_ - begin);
    if (!accept("(")) return Expr::variable(std::string(name));
    using Binary = Expr (*)(const Expr&, const Expr&);
    Binary op = nullptr;
    if (name == "min") op = tile::min;
    if (name == "max") op = tile::max;
    if (name == "floordiv") op = static_cast<Binary>(floor_div);
    if (name == "mod") op = static_cast<Binary>(floor_mod);
    if (op == nullptr) {
      at_ = begin;
      error("unknown function '" + std::string(name) + "'");
    }
    Expr a = parse_select();
    expect(",");
    Expr b = parse_select();
    expect(")");
    return op(a, b);
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t tokens_ = 0;
  int depth_ = 0;
};

}  // namespace

Expr parse_expr(std::string_view text) {
  try {
    return ExprParser(text).parse_all();
  } catch (const Overflow&) {
    fail(Stage::parse, "overflow", {0, static_cast<uint32_t>(text.size())},
         "a constant of the expression overflows 64 bits");
  }
}

}  // namespace tile
