// The syntax tree of an MFG program, before names are looked up. `...` and `|>` are gone: the
// parser puts the argument that they stand for in its place.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/ir/dtype.h"
#include "core/support/diagnostic.h"

namespace tile::mfg {

using SyntaxId = int32_t;
using BlockId = int32_t;

enum class SyntaxKind : uint8_t {
  integer,        // `integer` of `type`
  real,           // `real`
  name,           // text
  call,           // text(args…) block
  method,         // text.member(args…) block
  tensor_reduce,  // reduce<text>.member(args…) block
  sampler,        // sampler<text>(args…)
  tuple,          // [args…]
  splat,          // *args[0], inside a tuple or among arguments
  swizzle,        // args[0].member
  component,      // args[0].`integer`
  unary,          // text args[0]
  binary,         // args[0] text args[1]
  range,          // args[0] ..< args[1], an argument
  named,          // text = args[0], an argument
  enumerator,     // .text, an argument
};

struct Syntax {
  SyntaxKind kind = SyntaxKind::integer;
  Span span = {};
  std::string_view text = {};
  std::string_view member = {};
  std::vector<SyntaxId> args = {};
  BlockId block = -1;
  uint64_t integer = 0;
  double real = 0;
  DType type = DType::i32;
};

struct NameSyntax {
  std::string_view text;
  Span span;
};

struct ParameterSyntax {
  NameSyntax name;
  NameSyntax type;  // of functions only
};

// def NAME |…| {…}, def NAME by [[…]], def NAME by reduce<T>.METHOD(…) |…| {…}
struct DefinitionSyntax {
  NameSyntax name;
  Span span;
  std::optional<std::vector<SyntaxId>> bounds;
  Span bounds_span;
  BlockId block = -1;
  SyntaxId reduce = -1;           // kind tensor_reduce
  std::vector<SyntaxId> literal;  // numbers, row after row
  int64_t rows = 0;               // 0: one dimension
};

enum class StatementKind : uint8_t { let, definition, mutate, for_each };

struct StatementSyntax {
  StatementKind kind = StatementKind::let;
  Span span;
  std::vector<NameSyntax> names;  // let; several, or `pattern`, for [a, b] = …
  bool pattern = false;
  SyntaxId value = -1;   // let, mutate: what is added; for_each: the method
  SyntaxId target = -1;  // mutate: the call that names the cell
  DefinitionSyntax definition;
};

// |a, b| { statements… value }
struct BlockSyntax {
  Span span;
  std::vector<ParameterSyntax> parameters;
  std::vector<StatementSyntax> statements;
  SyntaxId value = -1;  // -1: the block ends in a statement
};

enum class DeclarationKind : uint8_t { let, definition, function, parameter };

struct ParamSyntax {
  NameSyntax name;
  DType type = DType::i32;
  int components = 0;  // 0: a scalar
  std::string_view label;
  std::vector<double> init;
  std::optional<double> min, max;
};

struct DeclarationSyntax {
  DeclarationKind kind = DeclarationKind::let;
  StatementSyntax statement;  // let and definition
  NameSyntax name;            // function
  BlockId block = -1;         // function
  ParamSyntax parameter;
};

struct ProgramSyntax {
  std::vector<Syntax> nodes;
  std::vector<BlockSyntax> blocks;
  std::vector<DeclarationSyntax> declarations;

  const Syntax& operator[](SyntaxId id) const { return nodes[static_cast<size_t>(id)]; }
  const BlockSyntax& block(BlockId id) const { return blocks[static_cast<size_t>(id)]; }
};

// Brackets, blocks, operators and `...` inside one another.
inline constexpr int kMaxNesting = 500;
inline constexpr size_t kMaxLiteralElements = 1 << 16;

// Views in the result point into `text`. Throws Failure of stage parse.
ProgramSyntax parse_syntax(std::string_view text);

}  // namespace tile::mfg
