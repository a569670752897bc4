#include "core/ir/operation.h"

#include <array>
#include <cctype>
#include <utility>

#include "core/ir/operation_cost.h"

namespace tile {
namespace {

#define OPERATION(name, spelling, arity, rule, cycles, instructions, ...) \
  constexpr std::array k_##name = std::to_array<std::string_view>({__VA_ARGS__});
#include "core/ir/operations.def"
#undef OPERATION

constexpr auto kOperations = std::to_array<OpInfo>({
#define OPERATION(name, spelling, arity, rule, cycles, instructions, ...) \
  {Op::name, #name, spelling, arity, TypeRule::rule, k_##name},
#include "core/ir/operations.def"
#undef OPERATION
});

constexpr auto kCosts = std::to_array<OperationCost>({
#define OPERATION(name, spelling, arity, rule, cycles, instructions, ...) {cycles, instructions},
#include "core/ir/operations.def"
#undef OPERATION
});

// PlaidML's function names for operators.
constexpr auto kAliases = std::to_array<std::pair<std::string_view, Op>>({
    {"cond", Op::select},
    {"cmp_eq", Op::eq},
    {"cmp_ne", Op::ne},
    {"cmp_lt", Op::lt},
    {"cmp_le", Op::le},
    {"cmp_gt", Op::gt},
    {"cmp_ge", Op::ge},
    {"bit_and", Op::bit_and},
    {"bit_or", Op::bit_or},
    {"bit_xor", Op::bit_xor},
    {"bit_not", Op::bit_not},
    {"bit_left", Op::shl},
    {"bit_right", Op::shr},
    {"add", Op::add},
    {"sub", Op::sub},
    {"mul", Op::mul},
    {"div", Op::div},
    {"mod", Op::mod},
    {"logical_and", Op::logical_and},
    {"logical_or", Op::logical_or},
    {"logical_not", Op::logical_not},
});

}  // namespace

const OpInfo& info(Op op) { return kOperations[static_cast<size_t>(op)]; }
std::span<const OpInfo> operations() { return kOperations; }
const OperationCost& cost_of(Op op) { return kCosts[static_cast<size_t>(op)]; }

std::optional<Op> find_function(std::string_view name) {
  for (const auto& [alias, op] : kAliases) {
    if (alias == name) return op;
  }
  for (const OpInfo& row : kOperations) {
    bool word = std::isalpha(static_cast<unsigned char>(row.spelling[0])) != 0;
    bool lowered = row.rule == TypeRule::packed || row.op == Op::cast || row.op == Op::uniform;
    if (word && row.spelling == name && !lowered) return row.op;
  }
  return std::nullopt;
}

int precedence(Op op) {
  switch (op) {
    case Op::logical_or:
      return 1;
    case Op::logical_and:
      return 2;
    case Op::bit_or:
      return 3;
    case Op::bit_xor:
      return 4;
    case Op::bit_and:
      return 5;
    case Op::eq:
    case Op::ne:
      return 6;
    case Op::lt:
    case Op::le:
    case Op::gt:
    case Op::ge:
      return 7;
    case Op::shl:
    case Op::shr:
      return 8;
    case Op::add:
    case Op::sub:
      return 9;
    case Op::mul:
    case Op::div:
    case Op::mod:
      return 10;
    default:
      return 0;
  }
}

std::optional<Op> find_binary_operator(std::string_view spelling) {
  for (const OpInfo& row : kOperations) {
    if (precedence(row.op) > 0 && row.spelling == spelling) return row.op;
  }
  return std::nullopt;
}

std::optional<Op> find_unary_operator(std::string_view spelling) {
  if (spelling == "-") return Op::neg;
  if (spelling == info(Op::bit_not).spelling) return Op::bit_not;
  if (spelling == info(Op::logical_not).spelling) return Op::logical_not;
  return std::nullopt;
}

}  // namespace tile
