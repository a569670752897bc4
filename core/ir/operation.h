// The table of scalar operations: see operations.def for its rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/ir/dtype.h"

namespace tile {

enum class Op : uint8_t {
#define OPERATION(name, ...) name,
#include "core/ir/operations.def"
#undef OPERATION
};

// How the result's type follows from the operands' (rules 5.2 to 5.6).
enum class TypeRule : uint8_t {
  arithmetic,    // promoted operands; bool acts as i32
  comparison,    // operands promoted, result bool
  integral,      // promoted integers; floats are an error
  logical,       // operands compared with zero, result bool
  selection,     // the second and third operands promoted; the first compared with zero
  casting,       // the node's own type
  casting_like,  // the second operand's declared type
  floating,      // promoted; integers and bool become f32
  rounding,      // floats as they are; integers unchanged
  identity,      // the operand's type
  predicate,     // any operand, result bool
  random,        // i64, i64 -> f32
  packed,        // elements in a u32, as the row says; in nests only
};

struct OpInfo {
  Op op;
  std::string_view name;      // the enumerator, e.g. "bit_and"
  std::string_view spelling;  // in programs: "&", "exp"
  int arity;
  TypeRule rule;
  std::span<const std::string_view> derivatives;  // one per operand; empty text: zero
};

const OpInfo& info(Op op);
std::span<const OpInfo> operations();
// A function of programs by its name ("exp", "select", also "bit_and", "cmp_eq", "cond" …).
std::optional<Op> find_function(std::string_view name);

// How tightly a binary operator binds, as in C: from 1 (||) to 10 (* / %); 0 if programs write the
// operation as a function or a unary operator.
int precedence(Op op);
std::optional<Op> find_binary_operator(std::string_view spelling);
std::optional<Op> find_unary_operator(std::string_view spelling);  // "-", "~", "!"

}  // namespace tile
