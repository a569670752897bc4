// The recursive-descent parser, shared by its two sources: statements in parser.cpp, expressions in
// expression_parser.cpp.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/language/tile/syntax.h"
#include "core/language/tile/token.h"

namespace tile {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), tokens_(tokenize(text)) {}

  ProgramSyntax program();
  ProgramSyntax lone_expression();

 private:
  // Tokens.
  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool accept(std::string_view symbol);
  const Token& expect(std::string_view symbol, std::string_view where);
  NameSyntax expect_name(TokenKind kind, std::string_view what);
  uint32_t last_end() const { return at_ == 0 ? 0 : tokens_[at_ - 1].span.end; }
  [[noreturn]] void fail_expected(std::string_view what, std::string_view hint = "") const;
  std::string missing_hint(std::string_view symbol, std::string_view where) const;
  std::string end_of_statement_hint() const;
  std::string closing_hint() const;
  std::string first_word_hint() const;
  bool changes_in_place() const;

  // StatementKind.
  InputSyntax input();
  DimensionSyntax dimension();
  StatementSyntax statement();
  Attribute attribute();
  ContractionSyntax contraction(Span name);
  Aggregation aggregation();
  void contraction_suffix(ContractionSyntax& contraction);
  [[noreturn]] void fail_constraint(const ConstraintSyntax& constraint);

  // Names for values: the text between `let` and `in`, and the end of where they hold.
  struct Binding {
    SyntaxId value = -1;
    Span span;
    bool used = false;
  };
  void bindings();
  void binding();
  void end_bindings();

  // Expressions.
  SyntaxId expression();
  SyntaxId conditional();
  SyntaxId binary(int least);
  SyntaxId unary();
  SyntaxId primary();
  SyntaxId number();
  SyntaxId negated_literal();
  std::vector<SyntaxId> arguments(std::string_view close);
  SyntaxId body();
  std::string_view operand_hint() const;
  SyntaxId add(Syntax node, uint32_t begin);
  void enter();
  void leave() { --nesting_; }

  std::string_view text_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  std::unordered_map<std::string_view, Binding> bindings_;  // of the value being read
  ProgramSyntax out_;
};

}  // namespace tile
