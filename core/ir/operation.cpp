#include "core/ir/operation.h"

#include <array>
#include <cctype>
#include <utility>

namespace tile {
namespace {

#define OPERATION(name, spelling, arity, rule, ...) \
  constexpr std::array k_##name = std::to_array<std::string_view>({__VA_ARGS__});
#include "core/ir/operations.def"
#undef OPERATION

constexpr auto kOperations = std::to_array<OpInfo>({
#define OPERATION(name, spelling, arity, rule, ...) \
  {Op::name, #name, spelling, arity, TypeRule::rule, k_##name},
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

std::optional<Op> find_function(std::string_view name) {
  for (const auto& [alias, op] : kAliases) {
    if (alias == name) return op;
  }
  for (const OpInfo& row : kOperations) {
    bool word = std::isalpha(static_cast<unsigned char>(row.spelling[0])) != 0;
    if (word && row.spelling == name && row.op != Op::cast && row.op != Op::uniform) return row.op;
  }
  return std::nullopt;
}

}  // namespace tile
