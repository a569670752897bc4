// Integers of bodies that are expressions of loop variables: worked out on indices, counters and
// literals alone, they need no instruction of their own where the ranges decide them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/ir/body.h"

namespace tile {

// The value of `expr`, which lies in [lo, hi] and needs no wrapping to the node's type.
struct IndexValue {
  Expr expr;
  int64_t lo = 0;
  int64_t hi = 0;
  int size = 1;  // operations in the expression, counted with repetition
};

std::optional<IndexValue> index_literal(int64_t value, DType type);
// The operation's value in `type`; nullopt: it may wrap, is no integer, or has no short expression.
std::optional<IndexValue> index_operation(Op op, DType type, std::span<const IndexValue> operands);

// Whether an integer of that range is the type's.
bool fits(int64_t lo, int64_t hi, DType type);

}  // namespace tile
