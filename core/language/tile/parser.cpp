#include "core/language/tile/parser.h"

#include <algorithm>

#include "core/language/idioms/idiom.h"
#include "core/language/idioms/tile_idioms.h"

namespace tile {
namespace {

constexpr int kAboveComparison = 8;

std::string shown(const Token& token) {
  if (token.kind == TokenKind::end) return "the end of the text";
  std::string text(token.text.substr(0, 40));
  if (token.kind == TokenKind::extent) text += "." + std::to_string(token.integer);
  return "'" + text + "'";
}

// What `A += B` is in a language where each tensor is assigned once.
std::string changed_name_hint(std::string_view name) {
  std::string changed(name);
  return "each tensor is assigned once: give the new value a new name, as in " + changed +
         "2 = " + changed + " + B";
}

}  // namespace

bool Parser::accept(std::string_view symbol) {
  if (!peek().is(symbol)) return false;
  take();
  return true;
}

void Parser::fail_expected(std::string_view what, std::string_view hint) const {
  const Token& before = tokens_[at_ > 0 ? at_ - 1 : 0];
  std::string_view foreign = symbols_hint(before.text, peek().text, peek(1).text);
  if (hint.empty() || foreign == kTrailingComma) hint = foreign;
  fail(Stage::parse, "syntax", peek().span,
       "expected " + std::string(what) + " before " + shown(peek()), std::string(hint));
}

const Token& Parser::expect(std::string_view symbol, std::string_view where) {
  if (!peek().is(symbol)) {
    std::string what = "'" + std::string(symbol) + "' " + std::string(where);
    fail_expected(what, missing_hint(symbol, where));
  }
  return take();
}

NameSyntax Parser::expect_name(TokenKind kind, std::string_view what) {
  const Token& token = peek();
  if (token.kind == TokenKind::reserved) {
    fail(
        Stage::parse, "syntax", token.span,
        "'" + std::string(token.text) + "' is reserved and cannot be used as " + std::string(what));
  }
  if (token.kind != kind) {
    if (what == "an input name" && !cast_hint(token.text).empty()) fail_expected(what, kTypes);
    bool other_case = token.kind == TokenKind::upper_name || token.kind == TokenKind::lower_name;
    fail_expected(what, !other_case ? ""
                        : kind == TokenKind::upper_name
                            ? "tensor and dimension names start with an upper-case letter"
                            : "index names start with a lower-case letter");
  }
  take();
  return {token.text, token.span};
}

ProgramSyntax Parser::program() {
  if (!peek().is("function")) fail_expected("'function'", first_word_hint());
  take();
  expect("(", "after 'function'");
  if (!peek().is(")")) {
    do {
      out_.inputs.push_back(input());
    } while (accept(","));
  }
  expect(")", "after the inputs");
  expect("->", "between inputs and outputs");
  expect("(", "before the outputs");
  do {
    out_.outputs.push_back(expect_name(TokenKind::upper_name, "an output name"));
  } while (accept(","));
  expect(")", "after the outputs");
  expect("{", "before the statements");
  while (!peek().is("}")) {
    if (out_.statements.size() >= kMaxStatements) {
      fail(Stage::parse, "limit", peek().span,
           "the program has more than " + std::to_string(kMaxStatements) + " statements");
    }
    out_.statements.push_back(statement());
  }
  take();
  if (peek().kind != TokenKind::end) {
    fail_expected("the end of the text",
                  peek().is("function") ? "a text holds one program" : "the program ends at its }");
  }
  return std::move(out_);
}

// input = TENSOR | TENSOR "[" "]" | TENSOR "[" dim {"," dim} "]"
InputSyntax Parser::input() {
  InputSyntax input{.name = expect_name(TokenKind::upper_name, "an input name"), .dims = {}};
  if (!accept("[")) return input;
  input.ranked = true;
  if (accept("]")) return input;
  do {
    input.dims.push_back(dimension());
  } while (accept(","));
  expect("]", "after the dimensions");
  return input;
}

DimensionSyntax Parser::dimension() {
  const Token& token = peek();
  if (token.kind != TokenKind::integer) {
    NameSyntax name = expect_name(TokenKind::upper_name, "a dimension name or an integer");
    return {.name = name.text, .span = name.span};
  }
  if (token.integer >> 63 != 0) {
    fail(Stage::parse, "limit", token.span, "the integer does not fit in 64 bits");
  }
  take();
  return {.name = "", .size = static_cast<int64_t>(token.integer), .span = token.span};
}

// statement = { "[[" attribute "]]" } ( contraction | TENSOR "=" bindings expr ) ";"
StatementSyntax Parser::statement() {
  StatementSyntax statement;
  uint32_t begin = peek().span.begin;
  while (peek().is("[") && peek(1).is("[") && peek().span.end == peek(1).span.begin) {
    take();
    take();
    statement.attributes.push_back(attribute());
    expect("]", "after the attribute");
    expect("]", "after the attribute");
  }
  std::string_view foreign = statement_hint(peek().text);
  if (!foreign.empty()) fail_expected("a statement or '}'", foreign);
  statement.result = expect_name(TokenKind::upper_name, "a statement or '}'");
  if (peek().is("[")) {
    statement.contraction = contraction(statement.result.span);
  } else {
    if (!peek().is("=")) {
      fail_expected("'=' or '[' after the tensor that is assigned",
                    changes_in_place() ? changed_name_hint(statement.result.text) : "");
    }
    take();
    std::optional<Op> op = find_binary_operator(peek().text);
    if (op && !find_unary_operator(peek().text)) {
      if (peek().is("|")) fail_expected("an expression", "an absolute value is abs(A)");
      fail_expected("an expression",
                    "a contraction names its output's indices and sizes, as in "
                    "O[i: N] = +(A[i, j]) or O[] = +(A[i, j])");
    }
    bindings();
    statement.value = expression();
    end_bindings();
  }
  statement.span = {begin, last_end()};
  expect(";", "after the statement");
  return statement;
}

// Whether `+=` or the like is next.
bool Parser::changes_in_place() const {
  return find_binary_operator(peek().text) && peek(1).is("=") &&
         peek().span.end == peek(1).span.begin;
}

// attribute = index-name [ "(" name {"," name} ")" ]
Attribute Parser::attribute() {
  Attribute attribute;
  attribute.name = expect_name(TokenKind::lower_name, "an attribute name").text;
  if (!accept("(")) return attribute;
  do {
    TokenKind kind =
        peek().kind == TokenKind::upper_name ? TokenKind::upper_name : TokenKind::lower_name;
    attribute.arguments.emplace_back(expect_name(kind, "a name").text);
  } while (accept(","));
  expect(")", "after the attribute's arguments");
  return attribute;
}

ContractionSyntax Parser::contraction(Span name) {
  ContractionSyntax out;
  take();
  if (!peek().is("]") && !peek().is(":")) {
    do {
      out.index.push_back(expression());
    } while (accept(","));
  }
  if (accept(":")) {
    out.sized = true;
    do {
      out.size.push_back(expression());
    } while (accept(","));
  }
  expect("]", "after the output's indices and sizes");
  out.out_span = {name.begin, last_end()};
  if (peek().is("==")) {
    fail_expected("'=' and an aggregation", "write the assigning aggregation as '= ='");
  }
  if (changes_in_place()) {
    fail_expected("'=' after the output",
                  "the aggregation stands behind the =, as in O[i: N] = +(A[i, j]); each tensor is "
                  "assigned once");
  }
  expect("=", "after the output");
  out.aggregation = aggregation();
  out.body = body();
  contraction_suffix(out);
  return out;
}

Aggregation Parser::aggregation() {
  for (Aggregation a : {Aggregation::sum, Aggregation::product, Aggregation::max, Aggregation::min,
                        Aggregation::assign}) {
    if (accept(to_string(a))) return a;
  }
  std::string_view hint = aggregation_hint(peek().text);
  fail_expected("an aggregation",
                hint.empty() ? "the aggregations are + * > < =, as in O[i: N] = +(A[i, j])" : hint);
}

// { "," index "<" size } [ "default" TENSOR ] [ "no_defract" ]
void Parser::contraction_suffix(ContractionSyntax& out) {
  while (accept(",")) {
    if (peek().is("default")) fail_expected("a constraint", "no comma stands before default");
    ConstraintSyntax constraint;
    constraint.form = binary(kAboveComparison);
    if (!peek().is("<")) fail_constraint(constraint);
    take();
    constraint.bound = binary(kAboveComparison);
    out.constraints.push_back(constraint);
  }
  if (accept("default")) {
    bool number = peek().kind == TokenKind::integer || peek().kind == TokenKind::real;
    if (number || peek().is("-")) fail_expected("the name of the default tensor", kDefault);
    out.default_tensor = expect_name(TokenKind::upper_name, "the name of the default tensor");
  }
  out.no_defract = accept("no_defract");
}

// `t <= s` compares two sides; a constraint of Tile has one, which lies between 0 and a bound. The
// hint says what was meant with the words of the text.
void Parser::fail_constraint(const ConstraintSyntax& constraint) {
  std::string hint = "a constraint is written e < b and means 0 <= e < b";
  bool below = peek().is("<="), above = peek().is(">=") || peek().is(">");
  if (!below && !above) fail_expected("'<'", hint);
  const size_t comparison = at_;
  take();
  SyntaxId right = binary(kAboveComparison);
  at_ = comparison;
  SyntaxId small = below ? constraint.form : right, large = below ? right : constraint.form;
  auto text = [&](SyntaxId id, bool operand) {
    const Syntax& node = out_[id];
    std::string words(text_.substr(node.span.begin, node.span.end - node.span.begin));
    return operand && node.kind == SyntaxKind::operation ? "(" + words + ")" : words;
  };
  bool of_names =
      out_[small].kind != SyntaxKind::integer && out_[large].kind != SyntaxKind::integer;
  if (of_names) {
    hint += "; what is meant here is " + text(large, false) + " - " + text(small, true) +
            (peek().is(">") ? " - 1" : "") + " < N, where N is the extent of " + text(large, false);
  }
  fail_expected("'<'", hint);
}

// bindings = [ "let" binding {"," binding} "in" ]. The two words are names elsewhere: no expression
// has a name directly behind a name.
void Parser::bindings() {
  if (peek().text != "let" || peek(1).kind != TokenKind::lower_name) return;
  take();
  do {
    binding();
  } while (accept(","));
  if (peek().text != "in") fail_expected("',' or 'in' after the value that is named");
  take();
}

// binding = name "=" expr
void Parser::binding() {
  NameSyntax name = expect_name(TokenKind::lower_name, "a name for a value");
  if (auto known = bindings_.find(name.text); known != bindings_.end()) {
    fail(Stage::parse, "name", name.span,
         "'" + std::string(name.text) + "' is the name of a value already",
         "use a new name for each value");
  }
  expect("=", "after the name of a value");
  SyntaxId value = expression();
  bindings_.emplace(name.text, Binding{value, name.span});
}

// A value that is not used would still say which points there are.
void Parser::end_bindings() {
  const Binding* unused = nullptr;
  for (const auto& [name, binding] : bindings_) {
    bool first = unused == nullptr || binding.span.begin < unused->span.begin;
    if (!binding.used && first) unused = &binding;
  }
  if (unused != nullptr) {
    std::string name(text_.substr(unused->span.begin, unused->span.end - unused->span.begin));
    fail(Stage::parse, "name", unused->span, "the value '" + name + "' is never used");
  }
  bindings_.clear();
}

ProgramSyntax Parser::lone_expression() {
  expression();
  if (peek().kind != TokenKind::end) fail_expected("the end of the expression");
  return std::move(out_);
}

ProgramSyntax parse_syntax(std::string_view text) { return Parser(text).program(); }

ProgramSyntax parse_expression_syntax(std::string_view text) {
  return Parser(text).lone_expression();
}

}  // namespace tile
