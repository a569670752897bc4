#include "core/nest/value_range.h"

#include <algorithm>
#include <limits>

namespace tile::nest {
namespace {

// Sums of a few such bounds do not overflow.
constexpr int64_t kFar = std::numeric_limits<int64_t>::max() / 4;
constexpr int kDepth = 24;

ValueRange range_of_type(DType type) {
  int bits = bit_width(type);
  if (type == DType::bool_) return {0, 1};
  if (!is_integer(type) || bits > 32) return {-kFar, kFar};
  int64_t half = int64_t{1} << (bits - 1);
  return is_signed_integer(type) ? ValueRange{-half, half - 1} : ValueRange{0, 2 * half - 1};
}

ValueRange range_of(const Body& body, NodeId id, int depth) {
  const Node& node = body[id];
  ValueRange all = range_of_type(node.type), r = all;
  if (node.kind == NodeKind::integer) r = {node.integer, node.integer};
  if (node.kind == NodeKind::size && node.expr.is_constant()) {
    r = {node.expr.value(), node.expr.value()};
  }
  bool operation = node.kind == NodeKind::operation && is_integer(node.type) && depth < kDepth;
  if (operation) {
    auto at = [&](size_t i) { return range_of(body, node.args[i], depth + 1); };
    if (node.op == Op::cast && is_integer(body[node.args[0]].type)) r = at(0);
    if (node.op == Op::min || node.op == Op::max || node.op == Op::add || node.op == Op::sub) {
      ValueRange a = at(0), b = at(1);
      if (node.op == Op::min) r = {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
      if (node.op == Op::max) r = {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
      if (node.op == Op::add) r = {a.lo + b.lo, a.hi + b.hi};
      if (node.op == Op::sub) r = {a.lo - b.hi, a.hi - b.lo};
    }
    if (node.op == Op::neg) r = {-at(0).hi, -at(0).lo};
  }
  return r.lo >= all.lo && r.hi <= all.hi ? r : all;
}

}  // namespace

ValueRange value_range(const Body& body, NodeId id) { return range_of(body, id, 0); }

}  // namespace tile::nest
