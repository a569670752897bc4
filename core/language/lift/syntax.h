// The syntax tree of a Lift program, before names are looked up. Types, sizes, functions and data
// share one expression grammar; elaboration says which of them may stand where.
//
//   program     = { "val" NAME "=" application [";"] }
//   application = composition { "$" composition }          right associative
//   composition = conditional { "o" conditional }          right associative
//   conditional = operators [ "?" conditional ":" conditional ]
//   operators   = the binary operators of C over `unary`
//   unary       = { "-" | "!" } postfix
//   postfix     = primary { "(" [ application { "," application } ] ")" }
//   primary     = NUMBER | NAME | lambda | "(" application ")"
//   lambda      = ( NAME | "(" NAME { "," NAME } ")" ) "=>" application
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/ir/operation.h"
#include "core/support/diagnostic.h"

namespace tile::lift {

using SyntaxId = int32_t;

enum class SyntaxKind : uint8_t {
  integer,      // `integer`
  real,         // `real`
  name,         // `text`
  call,         // args[0](args[1], …)
  operation,    // op(args…)
  conditional,  // args[0] ? args[1] : args[2]
  composition,  // args[0] o args[1] o …
  application,  // args[0] $ args[1] $ …
  lambda,       // params => args[0]
};

struct NameSyntax {
  std::string_view text;
  Span span;
};

struct Syntax {
  SyntaxKind kind = SyntaxKind::integer;
  Op op = Op::ident;
  Span span = {};
  std::string_view text = {};
  std::vector<SyntaxId> args = {};
  std::vector<NameSyntax> params = {};
  int64_t integer = 0;
  double real = 0;
};

struct DefinitionSyntax {
  NameSyntax name;
  SyntaxId value = -1;
};

struct ProgramSyntax {
  std::vector<Syntax> nodes;
  std::vector<DefinitionSyntax> definitions;

  const Syntax& operator[](SyntaxId id) const { return nodes[static_cast<size_t>(id)]; }
};

inline constexpr int kMaxNesting = 150;      // brackets, lambdas, unary operators
inline constexpr int kMaxOperators = 1'000;  // in one chain such as a + b + c

// Views in the result point into `text`. Throws Failure of stage parse.
ProgramSyntax parse_syntax(std::string_view text);

}  // namespace tile::lift
