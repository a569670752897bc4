// The recursive-descent parser, shared by its two sources: declarations and statements in
// parser.cpp, expressions in expression_parser.cpp.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/language/mfg/syntax.h"
#include "core/language/mfg/token.h"

namespace tile::mfg {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), tokens_(tokenize(text)) {}

  ProgramSyntax program();

 private:
  // Tokens.
  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool accept(std::string_view symbol);
  const Token& expect(std::string_view symbol, std::string_view where);
  NameSyntax expect_name(std::string_view what);
  void skip_newlines();
  uint32_t last_end() const { return at_ == 0 ? 0 : tokens_[at_ - 1].span.end; }
  Span span_since(uint32_t begin) const { return {begin, std::max(begin, last_end())}; }
  [[noreturn]] void fail_expected(std::string_view what, std::string_view hint = "") const;
  static std::string_view let_hint();
  std::string missing_hint(std::string_view symbol, std::string_view where) const;
  std::string definition_hint(std::string_view name) const;

  // Declarations and statements.
  void attribute();
  void declaration();
  void function();
  ParamSyntax parameter(std::string_view type_name);
  void parameter_setting(ParamSyntax& parameter);
  std::vector<double> setting_value();
  double setting_number();
  void bounds();
  DefinitionSyntax definition();
  void literal(DefinitionSyntax& definition);
  void literal_row(DefinitionSyntax& definition);
  StatementSyntax let();
  StatementSyntax mutate();
  bool starts_block() const;
  BlockId block();
  std::vector<ParameterSyntax> block_parameters();
  void block_item(BlockSyntax& block);
  // `first`: the token that the statement began with.
  void end_of_statement(size_t first);

  // Expressions.
  SyntaxId expression() { return binary(1); }
  SyntaxId binary(int least);
  SyntaxId piped(SyntaxId left);
  SyntaxId unary();
  SyntaxId power();
  SyntaxId postfix();
  SyntaxId member(SyntaxId left);
  SyntaxId method(SyntaxId left, const Token& name);
  SyntaxId primary();
  SyntaxId number(bool negative);
  SyntaxId name();
  SyntaxId tuple();
  SyntaxId sampler(const Token& word);
  SyntaxId tensor_reduce(const Token& word);
  bool starts_operand() const;
  std::vector<SyntaxId> arguments();
  SyntaxId argument();
  SyntaxId enumerator_or_value();
  SyntaxId add(Syntax node, uint32_t begin);
  void enter();
  void leave() { --nesting_; }

  std::string_view text_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int brackets_ = 0;        // open round and square brackets
  int piped_brackets_ = 0;  // those outside the last |>
  SyntaxId piped_ = -1;     // on the right of |>: what `...` stands for
  bool piped_used_ = false;
  std::optional<std::vector<SyntaxId>> bounds_;  // of the definition that follows
  Span bounds_span_;
  ProgramSyntax out_;
};

}  // namespace tile::mfg
