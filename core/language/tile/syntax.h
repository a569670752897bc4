// The syntax tree of a Tile program: what the grammar of core/language/tile/REFERENCE.md section 2
// recognises, before names are looked up. Index, size and scalar expressions share one expression
// grammar; elaboration says which of them may stand where.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/ir/operation.h"
#include "core/ir/program.h"
#include "core/support/diagnostic.h"

namespace tile {

using SyntaxId = int32_t;

enum class SyntaxKind : uint8_t {
  integer,    // `integer`
  real,       // `real`
  name,       // `text`
  extent,     // `text`.`integer`
  access,     // text[args…]
  call,       // text(args…)
  operation,  // op(args…), written with operators
  match,      // args[0] ? args[1], without an else part: A[i] == B[j] ? C[j]
  bound,      // a name for the value args[0], which stands in front: let v = … in …
};

struct Syntax {
  SyntaxKind kind = SyntaxKind::integer;
  Op op = Op::ident;
  Span span = {};
  int depth = 1;  // of the tree below, this node included; values that names stand for are not
  std::string_view text = {};
  std::vector<SyntaxId> args = {};
  int64_t integer = 0;
  double real = 0;
};

struct NameSyntax {
  std::string_view text;
  Span span;
};

struct DimensionSyntax {
  std::string_view name;  // empty: the literal `size`
  int64_t size = 0;
  Span span;
};

struct InputSyntax {
  NameSyntax name;
  bool ranked = false;
  std::vector<DimensionSyntax> dims;
};

struct ConstraintSyntax {
  SyntaxId form = -1;
  SyntaxId bound = -1;
};

struct ContractionSyntax {
  std::vector<SyntaxId> index;
  std::vector<SyntaxId> size;
  bool sized = false;  // the `:` is there
  Aggregation aggregation = Aggregation::sum;
  SyntaxId body = -1;
  std::vector<ConstraintSyntax> constraints;
  std::optional<NameSyntax> default_tensor;
  bool no_defract = false;
  Span out_span;
};

struct StatementSyntax {
  NameSyntax result;
  Span span;
  std::vector<Attribute> attributes;
  std::optional<ContractionSyntax> contraction;  // else `value`
  SyntaxId value = -1;
};

struct ProgramSyntax {
  std::vector<Syntax> nodes;  // arguments before the nodes that use them
  std::vector<InputSyntax> inputs;
  std::vector<NameSyntax> outputs;
  std::vector<StatementSyntax> statements;

  const Syntax& operator[](SyntaxId id) const { return nodes[static_cast<size_t>(id)]; }
};

// The limits of rule 8.2 on programs.
inline constexpr int kMaxNesting = 200;           // brackets, unary operators and else parts
inline constexpr int kMaxExpressionDepth = 1000;  // also of chains such as a + b + c
inline constexpr size_t kMaxStatements = 100'000;

// Views in the result point into `text`. Throws Failure of stage parse.
ProgramSyntax parse_syntax(std::string_view text);
// A text that is one scalar expression: the last of `nodes`.
ProgramSyntax parse_expression_syntax(std::string_view text);

// The part of a program text that a node was parsed from.
inline std::string_view text_of(std::string_view text, Span span) {
  return text.substr(span.begin, span.end - span.begin);
}

}  // namespace tile
