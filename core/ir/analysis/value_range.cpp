#include "core/ir/analysis/value_range.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "core/ir/analysis/integer_range.h"

namespace tile {
namespace {

// Sums of a few such bounds do not overflow.
constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 4;
constexpr int kDepth = 24;

ValueRange all_of(DType type) {
  bool bounded = type == DType::bool_ || (is_integer(type) && bit_width(type) <= 32);
  if (!bounded) return {-kFar, kFar};
  IntegerRange all = range_of_type(type);
  return {all.lo, all.hi};
}

ValueRange range_of(const Body& body, NodeId id, int depth) {
  const Node& node = body[id];
  ValueRange all = all_of(node.type), r = all;
  if (node.kind == NodeKind::integer) r = {node.integer, node.integer};
  if (node.kind == NodeKind::size && node.expr.is_constant()) {
    r = {node.expr.value(), node.expr.value()};
  }
  bool operation = node.kind == NodeKind::operation && is_integer(node.type) && depth < kDepth;
  if (operation) {
    std::vector<IntegerRange> operands;
    for (NodeId arg : node.args) {
      bool whole = is_integer(body[arg].type) || body[arg].type == DType::bool_;
      if (!whole) return all;
      ValueRange operand = range_of(body, arg, depth + 1);
      operands.push_back({operand.lo, operand.hi});
    }
    std::optional<IntegerRange> known = range_of_operation(node.op, operands);
    if (known) r = {known->lo, known->hi};
  }
  return r.lo >= all.lo && r.hi <= all.hi ? r : all;
}

}  // namespace

ValueRange value_range(const Body& body, NodeId id) { return range_of(body, id, 0); }

}  // namespace tile
