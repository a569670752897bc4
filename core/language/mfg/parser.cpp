#include "core/language/mfg/parser.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/language/idioms/idiom.h"
#include "core/language/idioms/mfg_idioms.h"
#include "core/support/control.h"

namespace tile::mfg {
namespace {

std::string shown(const Token& token) {
  if (token.kind == TokenKind::end) return "the end of the text";
  if (token.kind == TokenKind::newline) return "the end of the line";
  std::string text(token.text.substr(0, 40));
  return (token.kind == TokenKind::string ? "\"" + text + "\"" : "'" + text + "'");
}

}  // namespace

bool Parser::accept(std::string_view symbol) {
  if (!peek().is(symbol)) return false;
  take();
  return true;
}

const Token& Parser::expect(std::string_view symbol, std::string_view where) {
  if (!peek().is(symbol)) {
    std::string what = "'" + std::string(symbol) + "' " + std::string(where);
    fail_expected(what, missing_hint(symbol, where));
  }
  return take();
}

NameSyntax Parser::expect_name(std::string_view what) {
  if (peek().kind != TokenKind::name) fail_expected(what);
  const Token& token = take();
  return {token.text, token.span};
}

void Parser::skip_newlines() {
  while (peek().kind == TokenKind::newline) take();
}

void Parser::fail_expected(std::string_view what, std::string_view hint) const {
  const Token& before = tokens_[at_ > 0 ? at_ - 1 : 0];
  std::string_view foreign = symbols_hint(before.text, peek().text, peek(1).text);
  if (hint.empty() || foreign == kTrailingComma) hint = foreign;
  fail(Stage::parse, "syntax", peek().span,
       "expected " + std::string(what) + ", found " + shown(peek()), std::string(hint));
}

void Parser::enter() {
  int64_t most = std::min<int64_t>(kMaxNesting, limits().nesting);
  if (++nesting_ <= most) return;
  fail(Stage::parse, "limit", peek().span,
       "expressions and blocks are nested more than " + std::to_string(most) + " deep");
}

ProgramSyntax Parser::program() {
  skip_newlines();
  while (peek().kind != TokenKind::end) {
    if (peek().is("@")) {
      attribute();
    } else {
      declaration();
    }
    skip_newlines();
  }
  if (bounds_) {
    fail(Stage::parse, "syntax", bounds_span_, "@bounds stands before a `def`, but none follows");
  }
  return std::move(out_);
}

void Parser::end_of_statement(size_t first) {
  if (peek().kind == TokenKind::newline || peek().kind == TokenKind::end || peek().is("}")) return;
  std::string_view hint = statement_hint(tokens_[first].text);
  if (hint.empty()) hint = operator_hint(peek().text);
  if (hint.empty() && peek().is("[")) {
    hint = "an element of a tensor is written T(x, y), a component of a tuple t.x or t.0";
  }
  if (hint.empty() && peek().is("{")) {
    hint = "the indices of a block stand before it: rsum(0..<3) |i| { … }";
  }
  if (hint.empty() && peek().is("(")) {
    hint = "a sampler is named first: let s = sampler<T>(…); it is read like T, s(x, y)";
  }
  bool assigned = peek().is("=") || (peek().is(":") && peek(1).is("="));
  if (hint.empty() && assigned) hint = "a value is named by `let a = …`, once";
  fail_expected("the end of the line", hint.empty() ? "one statement stands on one line" : hint);
}

void Parser::attribute() {
  uint32_t begin = take().span.begin;
  NameSyntax name = expect_name("the name of an attribute after '@'");
  if (name.text == "bounds") {
    bounds();
    bounds_span_.begin = begin;
    return;
  }
  if (name.text == "title") {
    if (peek().kind != TokenKind::string) fail_expected("a string after @title");
    take();
  } else if (name.text == "print_expr") {
    expect("(", "after @print_expr");
    expression();
    expect(")", "after the expression");
  } else if (name.text.starts_with("param_")) {
    DeclarationSyntax declaration;
    declaration.kind = DeclarationKind::parameter;
    declaration.parameter = parameter(name.text);
    out_.declarations.push_back(std::move(declaration));
  } else {
    fail(Stage::parse, "name", name.span, "unknown attribute '@" + std::string(name.text) + "'",
         "attributes are @bounds, @title, @print_expr and @param_i32, _f32, _f32v2, _f32v4");
  }
  end_of_statement(at_);
}

// @param_TYPE NAME(WIDGET, label="…", min=…, max=…, init=…)
ParamSyntax Parser::parameter(std::string_view type_name) {
  ParamSyntax p;
  std::string_view type = type_name.substr(6);
  if (type == "pos") type = "f32v2";
  if (type != "i32" && type != "f32" && type != "f32v2" && type != "f32v4") {
    fail(Stage::parse, "type", tokens_[at_ - 1].span,
         "no parameters of type '" + std::string(type) + "'",
         "parameters are i32, f32, f32v2 or f32v4");
  }
  p.type = type == "i32" ? DType::i32 : DType::f32;
  p.components = type.size() > 3 ? type[4] - '0' : 0;
  p.name = expect_name("the parameter's name");
  expect("(", "after the parameter's name");
  expect_name("a widget such as SLIDER or CHECKBOX");
  while (accept(",")) parameter_setting(p);
  expect(")", "after the parameter's settings");
  return p;
}

void Parser::parameter_setting(ParamSyntax& p) {
  NameSyntax key = expect_name("label, min, max or init");
  expect("=", "after '" + std::string(key.text) + "'");
  if (key.text == "label") {
    if (peek().kind != TokenKind::string) fail_expected("a string");
    p.label = take().text;
    return;
  }
  Span at = peek().span;
  std::vector<double> value = setting_value();
  if (key.text == "init") {
    p.init = std::move(value);
    return;
  }
  if (key.text != "min" && key.text != "max") {
    fail(Stage::parse, "name", key.span, "unknown setting '" + std::string(key.text) + "'",
         "settings are label, min, max and init");
  }
  if (value.size() != 1) fail(Stage::parse, "type", at, "expected one number");
  (key.text == "min" ? p.min : p.max) = value[0];
}

std::vector<double> Parser::setting_value() {
  std::vector<double> values;
  if (!accept("[")) return {setting_number()};
  do {
    values.push_back(setting_number());
  } while (accept(","));
  expect("]", "after the numbers");
  return values;
}

double Parser::setting_number() {
  double sign = accept("-") ? -1 : 1;
  const Token& token = peek();
  if (token.kind != TokenKind::integer && token.kind != TokenKind::real) fail_expected("a number");
  take();
  return sign * (token.kind == TokenKind::real ? token.real : static_cast<double>(token.integer));
}

void Parser::bounds() {
  uint32_t begin = last_end();
  expect("(", "after @bounds");
  std::vector<SyntaxId> sizes;
  do {
    sizes.push_back(expression());
  } while (accept(","));
  expect(")", "after the sizes of @bounds");
  bounds_ = std::move(sizes);
  bounds_span_ = span_since(begin);
  skip_newlines();
  if (!peek().is_name("def")) fail_expected("`def` after @bounds");
}

void Parser::declaration() {
  if (peek().is_name("fn")) {
    function();
    return;
  }
  DeclarationSyntax d;
  if (peek().is_name("let")) {
    d.statement = let();
  } else if (peek().is_name("def")) {
    d.kind = DeclarationKind::definition;
    d.statement.kind = StatementKind::definition;
    d.statement.span = peek().span;
    d.statement.definition = definition();
  } else {
    fail_expected("`def`, `let`, `fn` or an attribute");
  }
  end_of_statement(at_);
  out_.declarations.push_back(std::move(d));
}

void Parser::function() {
  take();
  DeclarationSyntax d;
  d.kind = DeclarationKind::function;
  d.name = expect_name("the function's name");
  if (!starts_block()) {
    fail_expected("the function's block, as in |x: i32| {…}",
                  "a function is fn f |v: f32| { v*2.0 }");
  }
  d.block = block();
  for (const ParameterSyntax& p : out_.block(d.block).parameters) {
    if (!p.type.text.empty()) continue;
    fail(Stage::parse, "type", p.name.span,
         "the parameter '" + std::string(p.name.text) + "' needs a type, as in x: i32");
  }
  end_of_statement(at_);
  out_.declarations.push_back(std::move(d));
}

DefinitionSyntax Parser::definition() {
  DefinitionSyntax d;
  uint32_t begin = take().span.begin;
  d.bounds = std::exchange(bounds_, std::nullopt);
  d.bounds_span = bounds_span_;
  d.name = expect_name("the tensor's name");
  if (peek().is_name("by")) {
    take();
    if (peek().is("[")) {
      literal(d);
    } else if (peek().is_name("reduce") && peek(1).is("<")) {
      const Token& word = take();
      d.reduce = tensor_reduce(word);
    } else {
      fail_expected("a tensor literal in brackets or reduce<T> after `by`");
    }
    if (d.bounds) {
      fail(Stage::parse, "syntax", d.bounds_span, "a tensor defined with `by` has no @bounds");
    }
  } else {
    if (!starts_block()) {
      fail_expected("the tensor's block, as in |x, y| {…}, or `by`", definition_hint(d.name.text));
    }
    d.block = block();
  }
  d.span = span_since(begin);
  return d;
}

void Parser::literal(DefinitionSyntax& d) {
  if (!peek(1).is("[")) {
    literal_row(d);
    return;
  }
  take();
  size_t width = 0;
  do {
    Span at = peek().span;
    size_t before = d.literal.size();
    literal_row(d);
    ++d.rows;
    if (d.rows == 1) width = d.literal.size();
    if (d.literal.size() - before != width) {
      fail(Stage::parse, "type", {at.begin, last_end()},
           "row " + std::to_string(d.rows) + " of the tensor literal has " +
               std::to_string(d.literal.size() - before) + " elements, the first row has " +
               std::to_string(width));
    }
  } while (accept(","));
  expect("]", "after the rows of the tensor literal");
}

void Parser::literal_row(DefinitionSyntax& d) {
  expect("[", "to open a row of numbers");
  do {
    if (peek().is("[")) fail_expected("a number", "a tensor literal holds no tuples");
    d.literal.push_back(number(accept("-")));
    if (d.literal.size() > kMaxLiteralElements) {
      fail(Stage::parse, "limit", peek().span,
           "the tensor literal has more than " + std::to_string(kMaxLiteralElements) + " elements");
    }
  } while (accept(","));
  expect("]", "after the numbers");
}

StatementSyntax Parser::let() {
  StatementSyntax s;
  uint32_t begin = take().span.begin;
  if (accept("[")) {
    s.pattern = true;
    do {
      s.names.push_back(expect_name("a name or '_'"));
    } while (accept(","));
    expect("]", "after the names");
  } else {
    if (peek().is("(")) fail_expected("a name or '[' after `let`", let_hint());
    s.names.push_back(expect_name("a name or '[' after `let`"));
  }
  expect("=", "after the name of `let`");
  s.value = expression();
  s.span = span_since(begin);
  return s;
}

// mut! T(i, j) += value
StatementSyntax Parser::mutate() {
  StatementSyntax s;
  s.kind = StatementKind::mutate;
  uint32_t begin = take().span.begin;
  s.target = postfix();
  if (out_[s.target].kind != SyntaxKind::call) {
    fail(Stage::parse, "syntax", out_[s.target].span,
         "expected an element of a local tensor after mut!, as in mut! _h(i) += 1");
  }
  expect("+=", "after the element that mut! changes");
  s.value = expression();
  s.span = span_since(begin);
  return s;
}

// Whether a block's |a, b| { follows. `{` starts no expression, so this is not a bit-or.
bool Parser::starts_block() const {
  if (peek().is("||")) return peek(1).is("{");
  if (!peek().is("|")) return false;
  size_t i = 1;
  while (true) {
    if (peek(i).kind != TokenKind::name) return false;
    ++i;
    if (peek(i).is(":")) i += 2;
    if (!peek(i).is(",")) break;
    ++i;
  }
  return peek(i).is("|") && (peek(i + 1).is("{") || peek(i + 1).kind == TokenKind::newline);
}

std::vector<ParameterSyntax> Parser::block_parameters() {
  std::vector<ParameterSyntax> parameters;
  if (accept("||")) return parameters;
  expect("|", "to open the block's parameters");
  do {
    ParameterSyntax p;
    p.name = expect_name("a parameter's name");
    if (accept(":")) p.type = expect_name("a type");
    parameters.push_back(p);
  } while (accept(","));
  expect("|", "after the block's parameters");
  return parameters;
}

BlockId Parser::block() {
  enter();
  // The value of a surrounding |> is not meant by a `...` inside the block.
  SyntaxId outer = std::exchange(piped_, -1);
  BlockSyntax b;
  uint32_t begin = peek().span.begin;
  b.parameters = block_parameters();
  expect("{", "to open the block");
  skip_newlines();
  while (!peek().is("}")) {
    size_t first = at_;
    block_item(b);
    end_of_statement(first);
    skip_newlines();
  }
  take();
  b.span = span_since(begin);
  piped_ = outer;
  leave();
  out_.blocks.push_back(std::move(b));
  return static_cast<BlockId>(out_.blocks.size()) - 1;
}

void Parser::block_item(BlockSyntax& b) {
  if (b.value >= 0) {
    fail(Stage::parse, "syntax", out_[b.value].span,
         "the value of this line is not used: only a block's last line is an expression",
         "a line that goes on ends in an operator, an open bracket or '\\'");
  }
  if (peek().is("@")) {
    Span at = take().span;
    NameSyntax name = expect_name("`bounds` after '@'");
    if (name.text != "bounds") {
      fail(Stage::parse, "syntax", name.span, "expected @bounds: no other attribute stands here");
    }
    bounds();
    bounds_span_.begin = at.begin;
  }
  if (peek().is_name("let")) {
    b.statements.push_back(let());
  } else if (peek().is_name("mut!")) {
    b.statements.push_back(mutate());
  } else if (peek().is_name("def")) {
    StatementSyntax s;
    s.kind = StatementKind::definition;
    s.definition = definition();
    s.span = s.definition.span;
    b.statements.push_back(std::move(s));
  } else {
    SyntaxId value = expression();
    const Syntax& node = out_[value];
    if (node.kind == SyntaxKind::method && node.member == "for_each") {
      StatementSyntax s;
      s.kind = StatementKind::for_each;
      s.span = node.span;
      s.value = value;
      b.statements.push_back(std::move(s));
    } else {
      b.value = value;
    }
  }
}

ProgramSyntax parse_syntax(std::string_view text) { return Parser(text).program(); }

}  // namespace tile::mfg
