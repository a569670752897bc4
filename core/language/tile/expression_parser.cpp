#include <algorithm>
#include <limits>
#include <utility>

#include "core/language/idioms/idiom.h"
#include "core/language/idioms/tile_idioms.h"
#include "core/language/tile/parser.h"
#include "core/support/control.h"

namespace tile {
namespace {

constexpr uint64_t kTwoTo63 = uint64_t{1} << 63;

}  // namespace

void Parser::enter() {
  int64_t most = std::min<int64_t>(kMaxNesting, limits().nesting);
  if (++nesting_ > most) {
    fail(Stage::parse, "limit", peek().span,
         "the expression is nested more than " + std::to_string(most) + " levels deep",
         "assign parts of it to tensors of their own");
  }
}

// Adds a node that covers the tokens from byte `begin` to the one just taken.
SyntaxId Parser::add(Syntax node, uint32_t begin) {
  checkpoint();
  node.span = {begin, last_end()};
  if (node.kind != SyntaxKind::bound) {
    for (SyntaxId arg : node.args) node.depth = std::max(node.depth, out_[arg].depth + 1);
  }
  if (node.depth > kMaxExpressionDepth) {
    fail(Stage::parse, "limit", peek().span,
         "the expression has more than " + std::to_string(kMaxExpressionDepth) +
             " operations in a chain",
         "assign parts of it to tensors of their own");
  }
  out_.nodes.push_back(std::move(node));
  return static_cast<SyntaxId>(out_.nodes.size()) - 1;
}

SyntaxId Parser::expression() {
  enter();
  SyntaxId id = conditional();
  leave();
  return id;
}

SyntaxId Parser::conditional() {
  uint32_t begin = peek().span.begin;
  SyntaxId condition = binary(1);
  if (!accept("?")) return condition;
  SyntaxId then = expression();
  expect(":", "and the value for the other case");
  SyntaxId other = expression();
  return add({.kind = SyntaxKind::operation, .op = Op::select, .args = {condition, then, other}},
             begin);
}

// Operators of precedence `least` and above, all left-associative, by precedence climbing.
SyntaxId Parser::binary(int least) {
  uint32_t begin = peek().span.begin;
  SyntaxId left = unary();
  while (peek().kind == TokenKind::punctuation) {
    std::optional<Op> op = find_binary_operator(peek().text);
    if (!op || precedence(*op) < least) break;
    take();
    SyntaxId right = binary(precedence(*op) + 1);
    left = add({.kind = SyntaxKind::operation, .op = *op, .args = {left, right}}, begin);
  }
  return left;
}

SyntaxId Parser::unary() {
  std::vector<std::pair<Op, uint32_t>> operators;  // with where they begin
  while (peek().kind == TokenKind::punctuation) {
    std::optional<Op> op = find_unary_operator(peek().text);
    if (!op) break;
    TokenKind next = peek(1).kind;
    if (*op == Op::neg && (next == TokenKind::integer || next == TokenKind::real)) break;
    operators.emplace_back(*op, take().span.begin);
  }
  SyntaxId id = peek().is("-") ? negated_literal() : primary();
  for (; !operators.empty(); operators.pop_back()) {
    auto [op, begin] = operators.back();
    id = add({.kind = SyntaxKind::operation, .op = op, .args = {id}}, begin);
  }
  return id;
}

// A minus directly before a number is part of the number.
SyntaxId Parser::negated_literal() {
  const Token& minus = take();
  const Token& literal = take();
  Syntax node;
  if (literal.kind == TokenKind::real) {
    node.kind = SyntaxKind::real;
    node.real = -literal.real;
  } else {
    node.integer = literal.integer == kTwoTo63 ? std::numeric_limits<int64_t>::min()
                                               : -static_cast<int64_t>(literal.integer);
  }
  return add(std::move(node), minus.span.begin);
}

SyntaxId Parser::number() {
  const Token& token = take();
  Syntax node{.args = {}};
  if (token.kind == TokenKind::real) {
    node.kind = SyntaxKind::real;
    node.real = token.real;
  } else {
    if (token.integer >= kTwoTo63) {
      fail(Stage::parse, "limit", token.span, "the integer does not fit in 64 bits");
    }
    node.integer = static_cast<int64_t>(token.integer);
  }
  return add(std::move(node), token.span.begin);
}

SyntaxId Parser::primary() {
  const Token& token = peek();
  uint32_t begin = token.span.begin;
  if (token.kind == TokenKind::integer || token.kind == TokenKind::real) return number();
  if (token.kind == TokenKind::extent) {
    take();
    if (token.integer >= kTwoTo63) {
      fail(Stage::parse, "limit", token.span, "the integer does not fit in 64 bits");
    }
    return add({.kind = SyntaxKind::extent,
                .text = token.text,
                .args = {},
                .integer = static_cast<int64_t>(token.integer)},
               begin);
  }
  if (token.kind == TokenKind::upper_name || token.kind == TokenKind::lower_name) {
    if (token.text == "if" && peek(1).is("(")) fail_expected("an expression", idiom_hint("if"));
    take();
    Syntax node{.kind = SyntaxKind::name, .text = token.text, .args = {}};
    if (accept("[")) {
      node.kind = SyntaxKind::access;
      node.args = arguments("]");
    } else if (accept("(")) {
      node.kind = SyntaxKind::call;
      node.args = arguments(")");
    } else if (auto known = bindings_.find(token.text); known != bindings_.end()) {
      node.kind = SyntaxKind::bound;
      node.args = {known->second.value};
      known->second.used = true;
    }
    return add(std::move(node), begin);
  }
  if (!peek().is("(")) fail_expected("an expression", operand_hint());
  take();
  SyntaxId inner = expression();
  expect(")", "to close the parenthesis");
  return inner;
}

// What people write for a power and for a part of a tensor.
std::string_view Parser::operand_hint() const {
  bool adjacent = at_ > 0 && peek().span.begin == last_end();
  if (peek().is("*") && adjacent && tokens_[at_ - 1].is("*")) {
    return "a power is pow(A, e), a square is square(A)";
  }
  if (peek().is("[")) {
    return "tensors and sizes of a call are not in brackets: concat(0, A, B), reshape(A, N, M)";
  }
  bool of_access = at_ > 0 && (tokens_[at_ - 1].is("[") || tokens_[at_ - 1].is(","));
  if (peek().is(":") && of_access) {
    // Sizes stand apart from their colon, as in O[i, : N]; ends of slices do not.
    bool sizes = tokens_[at_ - 1].is(",") && peek(1).span.begin > peek().span.end;
    return sizes ? kTrailingComma : "a part of a tensor is slice(A, axis, start, stop, step)";
  }
  return "";
}

std::vector<SyntaxId> Parser::arguments(std::string_view close) {
  std::vector<SyntaxId> args;
  if (accept(close)) return args;
  do {
    args.push_back(expression());
  } while (accept(","));
  expect(close, close == "]" ? "after the indices" : "after the arguments");
  return args;
}

// The parenthesised body of a contraction, whose conditional may lack its else part.
SyntaxId Parser::body() {
  expect("(", "after the aggregation");
  bindings();
  uint32_t begin = peek().span.begin;
  SyntaxId value = binary(1);
  if (accept("?")) {
    SyntaxId then = expression();
    if (accept(":")) {
      SyntaxId other = expression();
      value = add({.kind = SyntaxKind::operation, .op = Op::select, .args = {value, then, other}},
                  begin);
    } else {
      value = add({.kind = SyntaxKind::match, .args = {value, then}}, begin);
    }
  }
  expect(")", "after the contraction's body");
  end_bindings();
  return value;
}

}  // namespace tile
