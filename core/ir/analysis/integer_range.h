// What values the integers of a body can take.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/ir/bound.h"

namespace tile {

// Inclusive.
struct IntegerRange {
  int64_t lo = 0, hi = 0;
};

// All values of an integer type of at most 32 bits, or of bool.
IntegerRange range_of_type(DType type);
// The exact result of operands in these ranges, before it wraps; nullopt: nothing is known.
std::optional<IntegerRange> range_of_operation(Op op, std::span<const IntegerRange> operands);
// A node's value, of its operands' ranges; nullopt: no integer, or one of 64 bits of which nothing
// is known.
std::optional<IntegerRange> range_of_node(const Node& node,
                                          std::span<const std::optional<IntegerRange>> operands);
// Of each node of a body. `leaf` may know more of a node that is no operation than its type says.
using LeafRange = std::function<std::optional<IntegerRange>(const Node&)>;
IdVector<NodeId, std::optional<IntegerRange>> integer_ranges(const Body& body,
                                                             const LeafRange& leaf = {});
// The same of a piece's body, its indices being in their box.
IdVector<NodeId, std::optional<IntegerRange>> integer_ranges(const Piece& piece);

// The narrowest type of at least `least` and less than `bits` bits that holds the range.
std::optional<DType> narrowest_type(const IntegerRange& range, int bits, int least = 8);

}  // namespace tile
