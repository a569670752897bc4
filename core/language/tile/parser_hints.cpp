// What was probably meant where a symbol is missing.
#include "core/language/idioms/tile_idioms.h"
#include "core/language/tile/parser.h"

namespace tile {

std::string Parser::missing_hint(std::string_view symbol, std::string_view where) const {
  constexpr std::string_view kProgram = "a program is function (A[N]) -> (O) { O = …; }";
  if (symbol == ";") return end_of_statement_hint();
  if (where == "after 'function'")
    return "a program has no name: function (A[N]) -> (O) { O = …; }";
  if (symbol == "->" || symbol == "{") return std::string(kProgram);
  if (where == "before the outputs") return "outputs are in parentheses: -> (O)";
  if (peek().is(":") && (where == "after the inputs" || where == "after the dimensions")) {
    return std::string(kTypes);
  }
  return symbol == ")" || symbol == "]" ? closing_hint() : "";
}

std::string Parser::first_word_hint() const {
  std::string hint = "a program is function (…) -> (…) { … }";
  // Programs of the other two languages begin so.
  if (peek().is("def")) hint += "; a filter's text is of the language mfg";
  if (peek().is("val")) hint += "; a text of patterns is of the language lift";
  return hint;
}

// Behind a whole expression.
std::string Parser::end_of_statement_hint() const {
  if (peek().is("/") || peek().is("*") || peek().is("+") || peek().is("-")) {
    return "a contraction is all of its statement: S[i: M] = +(A[i, j]); Mean = S / N";
  }
  if (std::string_view hint = operator_hint(peek().text); !hint.empty()) return std::string(hint);
  const Token& before = tokens_[at_ > 0 ? at_ - 1 : 0];
  if (std::string_view hint = operator_hint(before.text); !hint.empty()) return std::string(hint);
  bool name = peek().kind == TokenKind::upper_name || peek().kind == TokenKind::lower_name;
  bool same_line =
      text_.substr(last_end(), peek().span.begin - last_end()).find('\n') == std::string_view::npos;
  if (before.kind == TokenKind::lower_name && name && same_line) {
    return "the arguments of a function are in parentheses: " + std::string(before.text) + "(" +
           std::string(peek().text) + ")";
  }
  return "every statement ends in a semicolon";
}

// In a bracket, behind a whole expression.
std::string Parser::closing_hint() const {
  std::string_view gap = text_.substr(last_end(), peek().span.begin - last_end());
  size_t comment = gap.find("//");
  if (comment != std::string_view::npos && gap.find('\n') > comment) {
    return "// begins a comment; a quotient is written /, and is exact in an index";
  }
  bool accessed = at_ > 0 && tokens_[at_ - 1].is("]");
  if (peek().is("[") && accessed) return "all indices are in one bracket: A[i, j]";
  if (peek().is("=")) {
    return "arguments have no names: they are given in order, as in argmax(A, 1)";
  }
  if (peek().is(":") || peek().is(",")) return std::string(operator_hint("where"));
  return std::string(operator_hint(peek().text));
}

}  // namespace tile
