// Integer expressions over a piece's iterators as values of its body.
#pragma once

#include <string>
#include <vector>

#include "core/ir/body.h"
#include "core/simplify/simplify.h"

namespace tile {

// Appends the i64 value of `e`, whose variables are `indices` (index nodes by position) and, before
// bind, sizes.
// Quotients whose operands' signs the ranges leave open are floored or truncated as `e` says.
// A division by zero gives 0, as Op::div does.
NodeId add_index_value(Body& body, const Expr& e, const std::vector<std::string>& indices,
                       const Ranges& ranges, Span span);

}  // namespace tile
