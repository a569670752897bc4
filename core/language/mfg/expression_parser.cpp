#include <array>
#include <utility>

#include "core/language/mfg/parser.h"
#include "core/support/control.h"

namespace tile::mfg {
namespace {

struct BinaryOperator {
  std::string_view text;
  int precedence;
};
constexpr auto kBinary = std::to_array<BinaryOperator>({{"||", 1},
                                                        {"&&", 2},
                                                        {"==", 3},
                                                        {"!=", 3},
                                                        {"<", 3},
                                                        {"<=", 3},
                                                        {">", 3},
                                                        {">=", 3},
                                                        {"|>", 3},
                                                        {"|", 4},
                                                        {"&", 5},
                                                        {">>", 6},
                                                        {"<<", 6},
                                                        {"+", 7},
                                                        {"-", 7},
                                                        {"*", 8},
                                                        {"/", 8},
                                                        {"%", 8}});
constexpr int kComparison = 3;

int precedence_of(const Token& token) {
  if (token.kind != TokenKind::punctuation) return 0;
  for (const BinaryOperator& row : kBinary) {
    if (row.text == token.text) return row.precedence;
  }
  return 0;
}

bool is_type_name(std::string_view name) {
  std::optional<DType> type = parse_dtype(name);
  return type && (is_integer(*type) ? bit_width(*type) <= 32 : *type == DType::f32);
}

}  // namespace

SyntaxId Parser::add(Syntax node, uint32_t begin) {
  checkpoint();
  node.span = span_since(begin);
  out_.nodes.push_back(std::move(node));
  return static_cast<SyntaxId>(out_.nodes.size()) - 1;
}

// All binary operators but ^ associate to the left.
SyntaxId Parser::binary(int least) {
  enter();
  SyntaxId left = unary();
  while (true) {
    int precedence = precedence_of(peek());
    if (precedence < least || precedence == 0 || starts_block()) break;
    std::string_view op = take().text;
    if (op == "|>") {
      left = piped(left);
      continue;
    }
    SyntaxId right = binary(precedence + 1);
    uint32_t begin = out_[left].span.begin;
    Syntax node{.kind = SyntaxKind::binary, .text = op, .args = {left, right}};
    left = add(std::move(node), begin);
  }
  leave();
  return left;
}

// The right side of |>: an operand whose call holds `...` in its last place.
SyntaxId Parser::piped(SyntaxId left) {
  SyntaxId outer = std::exchange(piped_, left);
  int outer_brackets = std::exchange(piped_brackets_, brackets_);
  bool outer_used = std::exchange(piped_used_, false);
  Span at = peek().span;
  SyntaxId right = binary(kComparison + 1);
  if (!piped_used_) {
    fail(Stage::parse, "syntax", at,
         "expected a call whose last argument is `...` on the right of |>", "write c |> f(a, ...)");
  }
  piped_ = outer;
  piped_used_ = outer_used;
  piped_brackets_ = outer_brackets;
  return right;
}

SyntaxId Parser::unary() {
  if (!peek().is("-") && !peek().is("!")) return power();
  enter();
  const Token& op = take();
  bool literal =
      op.text == "-" && (peek().kind == TokenKind::integer) && !peek(1).is("^") && !peek(1).is(".");
  SyntaxId result = -1;
  if (literal) {
    result = number(true);
  } else {
    Syntax node{.kind = SyntaxKind::unary, .text = op.text, .args = {unary()}};
    result = add(std::move(node), op.span.begin);
  }
  leave();
  return result;
}

// Binds tighter than a unary operator on its left, associates to the right.
SyntaxId Parser::power() {
  SyntaxId base = postfix();
  if (!peek().is("^")) return base;
  enter();
  take();
  Syntax node{.kind = SyntaxKind::binary, .text = "^", .args = {base, unary()}};
  leave();
  return add(std::move(node), out_[base].span.begin);
}

SyntaxId Parser::postfix() {
  SyntaxId left = primary();
  while (peek().is(".")) left = member(left);
  return left;
}

SyntaxId Parser::member(SyntaxId left) {
  take();
  uint32_t begin = out_[left].span.begin;
  if (peek().kind == TokenKind::integer) {
    Syntax node{.kind = SyntaxKind::component, .args = {left}};
    node.integer = take().integer;
    return add(std::move(node), begin);
  }
  if (peek().kind != TokenKind::name) {
    fail_expected("components such as xyz, a number or a method",
                  peek().is(".") || peek().kind == TokenKind::real
                      ? "a range without its end is written 0..<3"
                      : "");
  }
  const Token& name = take();
  if (peek().is("(") || starts_block()) return method(left, name);
  Syntax node{.kind = SyntaxKind::swizzle, .member = name.text, .args = {left}};
  return add(std::move(node), begin);
}

SyntaxId Parser::method(SyntaxId left, const Token& name) {
  const Syntax receiver = out_[left];
  if (receiver.kind != SyntaxKind::name) {
    fail(Stage::parse, "syntax", name.span,
         "'" + std::string(name.text) + "' is called on a value: methods belong to tensors");
  }
  Syntax node{.kind = SyntaxKind::method, .text = receiver.text, .member = name.text};
  if (peek().is("(")) node.args = arguments();
  if (starts_block()) node.block = block();
  return add(std::move(node), receiver.span.begin);
}

SyntaxId Parser::primary() {
  const Token& token = peek();
  if (token.kind == TokenKind::integer || token.kind == TokenKind::real) return number(false);
  if (token.kind == TokenKind::name) return name();
  if (token.is("[")) return tuple();
  if (token.is("(")) {
    enter();
    take();
    ++brackets_;
    SyntaxId inner = expression();
    --brackets_;
    if (peek().is("..<")) fail_expected("')'", "a range stands only as an argument of a loop");
    expect(")", "after the expression");
    leave();
    return inner;
  }
  if (starts_block()) {
    fail(Stage::parse, "syntax", token.span,
         "a block stands only after a call that takes one, such as rsum(0..<4) |i| {…}");
  }
  if (token.is(".")) fail_expected("a value", "numbers need digits before the dot, as in 0.25");
  if (token.is("...")) {
    fail_expected("a value", "`...` stands only as the last argument of a call");
  }
  if (token.is("*")) {
    bool power = at_ > 0 && tokens_[at_ - 1].is("*") && token.span.begin == last_end();
    if (power) fail_expected("a value", "a power is written x^2");
    fail_expected("a value", "*e stands only inside a tuple or among arguments");
  }
  fail_expected("a value");
}

SyntaxId Parser::number(bool negative) {
  uint32_t begin = negative ? tokens_[at_ - 1].span.begin : peek().span.begin;
  const Token& token = peek();
  if (token.kind == TokenKind::real) {
    take();
    Syntax node{.kind = SyntaxKind::real, .real = negative ? -token.real : token.real};
    node.type = DType::f32;
    return add(std::move(node), begin);
  }
  if (token.kind != TokenKind::integer) fail_expected("a number");
  take();
  uint64_t most = token.is_unsigned ? 0xffffffffu : 0x7fffffffu + (negative ? 1u : 0u);
  if (token.integer > most) {
    fail(Stage::parse, "limit", token.span, "the integer does not fit in an i32",
         "write " + std::string(token.text) + "u for a u32");
  }
  Syntax node{.kind = SyntaxKind::integer, .integer = token.integer};
  if (negative) node.integer = (~token.integer + 1) & 0xffffffffu;
  node.type = token.is_unsigned ? DType::u32 : DType::i32;
  return add(std::move(node), begin);
}

SyntaxId Parser::name() {
  const Token& word = take();
  if (word.text == "let" || word.text == "def" || word.text == "fn" || word.text == "mut!" ||
      word.text == "by") {
    fail(Stage::parse, "syntax", word.span,
         "expected a value, found the keyword '" + std::string(word.text) + "'");
  }
  if (word.text == "sampler" && peek().is("<")) return sampler(word);
  if (word.text == "reduce" && peek().is("<")) return tensor_reduce(word);
  Syntax node{.kind = SyntaxKind::name, .text = word.text};
  if (peek().is("(")) {
    node.kind = SyntaxKind::call;
    node.args = arguments();
    if (starts_block()) node.block = block();
  } else if (peek().is("[") && is_type_name(word.text)) {
    node.kind = SyntaxKind::call;
    node.args = {tuple()};
  }
  return add(std::move(node), word.span.begin);
}

SyntaxId Parser::tuple() {
  enter();
  uint32_t begin = take().span.begin;
  ++brackets_;
  Syntax node{.kind = SyntaxKind::tuple};
  if (peek().is("]")) fail_expected("a value", "a tuple has at least one component");
  do {
    if (peek().is("]")) break;
    node.args.push_back(argument());
    SyntaxKind kind = out_[node.args.back()].kind;
    if (kind == SyntaxKind::range || kind == SyntaxKind::named || kind == SyntaxKind::enumerator) {
      fail(Stage::parse, "syntax", out_[node.args.back()].span,
           "expected a value: ranges and named arguments stand only in calls");
    }
  } while (accept(","));
  expect("]", "after the tuple's components");
  --brackets_;
  leave();
  return add(std::move(node), begin);
}

// sampler<T>(address=.ClampToEdge, …)
SyntaxId Parser::sampler(const Token& word) {
  take();
  Syntax node{.kind = SyntaxKind::sampler, .text = expect_name("a tensor's name").text};
  expect(">", "after the sampler's tensor");
  if (!peek().is("(")) fail_expected("'(' after sampler<T>");
  node.args = arguments();
  return add(std::move(node), word.span.begin);
}

// reduce<T>.METHOD(dim=0, …) |…| {…}
SyntaxId Parser::tensor_reduce(const Token& word) {
  take();
  Syntax node{.kind = SyntaxKind::tensor_reduce, .text = expect_name("a tensor's name").text};
  expect(">", "after the tensor to reduce");
  expect(".", "after reduce<T>");
  node.member = expect_name("accumulate or find_first_index").text;
  if (!peek().is("(")) fail_expected("'(' after the method's name");
  node.args = arguments();
  if (!starts_block()) fail_expected("the block of the reduction");
  node.block = block();
  return add(std::move(node), word.span.begin);
}

// Whether an operand without a sign is next.
bool Parser::starts_operand() const {
  TokenKind kind = peek().kind;
  return kind == TokenKind::name || kind == TokenKind::integer || kind == TokenKind::real ||
         peek().is("(") || peek().is("[");
}

std::vector<SyntaxId> Parser::arguments() {
  enter();
  take();
  ++brackets_;
  std::vector<SyntaxId> args;
  bool trailing = false;
  while (!peek().is(")")) {
    if (peek().is("...")) {
      take();
      trailing = true;
      if (!peek().is(")")) fail_expected("')'", "`...` is the last argument");
      break;
    }
    args.push_back(argument());
    if (!accept(",")) break;
  }
  expect(")", "or ',' after the argument");
  --brackets_;
  // In a bracket on the right of |> a call that an expression follows takes that.
  bool followed = brackets_ > piped_brackets_ && starts_operand();
  if (trailing && piped_ >= 0 && !followed) {
    args.push_back(piped_);
    piped_used_ = true;
  } else if (trailing) {
    skip_newlines();
    if (peek().is("}") || peek().kind == TokenKind::end) {
      fail_expected("the expression that `...` stands for");
    }
    args.push_back(expression());
  }
  leave();
  return args;
}

SyntaxId Parser::enumerator_or_value() {
  if (!peek().is(".") || peek(1).kind != TokenKind::name) return expression();
  uint32_t begin = take().span.begin;
  Syntax node{.kind = SyntaxKind::enumerator, .text = take().text};
  return add(std::move(node), begin);
}

SyntaxId Parser::argument() {
  uint32_t begin = peek().span.begin;
  if (accept("*")) {
    Syntax node{.kind = SyntaxKind::splat, .args = {expression()}};
    return add(std::move(node), begin);
  }
  if (peek().kind == TokenKind::name && peek(1).is("=")) {
    std::string_view name = take().text;
    take();
    Syntax node{.kind = SyntaxKind::named, .text = name, .args = {enumerator_or_value()}};
    return add(std::move(node), begin);
  }
  SyntaxId value = enumerator_or_value();
  if (!accept("..<")) return value;
  Syntax node{.kind = SyntaxKind::range, .args = {value, expression()}};
  return add(std::move(node), begin);
}

}  // namespace tile::mfg
