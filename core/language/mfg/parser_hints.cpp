// What was probably meant where a symbol is missing.
#include "core/language/idioms/idiom.h"
#include "core/language/idioms/mfg_idioms.h"
#include "core/language/mfg/parser.h"

namespace tile::mfg {

std::string_view Parser::let_hint() {
  return "the components of a tuple are named by let [b, g, r, a] = …";
}

// Where a symbol is missing.
std::string Parser::missing_hint(std::string_view symbol, std::string_view where) const {
  const Token& before = tokens_[at_ > 0 ? at_ - 1 : 0];
  if (where == "after the name of `let`") {
    return std::string(peek().is(",") ? let_hint() : statement_hint(before.text));
  }
  if (where == "after the parameter's name") {
    return "a parameter is @param_i32 r(SLIDER, label=\"r\", min=1, max=20, init=5)";
  }
  bool bracket = symbol == ")" || symbol == "]";
  if (bracket && peek().is("...")) return "a range without its end is written 0..<3";
  if (bracket && peek().is("[")) return "a component of a tuple is t.x or t.0";
  return bracket ? std::string(operator_hint(peek().text)) : "";
}

// Of a definition without a block.
std::string Parser::definition_hint(std::string_view name) const {
  std::string start = "a picture is def " + std::string(name);
  if (peek().is("=")) return "a table of numbers is def " + std::string(name) + " by [[…], […]]";
  size_t end = 1;
  while (peek(end).kind == TokenKind::name && peek(end + 1).is(",")) end += 2;
  if (peek().is("|") && end > 1 && peek(end).is("|")) return std::string(kTrailingComma);
  bool indices = peek().is("|") && peek(1).kind == TokenKind::name;
  if (indices && peek(2).kind == TokenKind::name) return "indices have commas between: |x, y|";
  return start + " |x, y| { … }";
}

}  // namespace tile::mfg
