#include "core/ir/analysis/integer_range.h"

#include <algorithm>
#include <array>

namespace tile {
namespace {

using Range = IntegerRange;
using Known = std::optional<Range>;  // nullopt: anything of the node's type

bool has_range(DType type) {
  return type == DType::bool_ || (is_integer(type) && bit_width(type) <= 32);
}

// nullopt: the bounds need more than 64 bits.
Known sum(const Range& a, const Range& b) {
  Range r;
  if (__builtin_add_overflow(a.lo, b.lo, &r.lo) || __builtin_add_overflow(a.hi, b.hi, &r.hi))
    return std::nullopt;
  return r;
}
Known negated(const Range& a) {
  Range r;
  if (__builtin_sub_overflow(int64_t{0}, a.hi, &r.lo) ||
      __builtin_sub_overflow(int64_t{0}, a.lo, &r.hi))
    return std::nullopt;
  return r;
}
Known product(const Range& a, const Range& b) {
  std::array<int64_t, 4> all{};
  if (__builtin_mul_overflow(a.lo, b.lo, &all[0]) || __builtin_mul_overflow(a.lo, b.hi, &all[1]) ||
      __builtin_mul_overflow(a.hi, b.lo, &all[2]) || __builtin_mul_overflow(a.hi, b.hi, &all[3]))
    return std::nullopt;
  return Range{*std::min_element(all.begin(), all.end()),
               *std::max_element(all.begin(), all.end())};
}
Known magnitude(const Range& a) {
  Known other = negated(a);
  if (!other) return std::nullopt;
  bool crosses = a.lo <= 0 && a.hi >= 0;
  int64_t least = crosses ? 0 : std::max(a.lo, other->lo);
  return Range{least, std::max(a.hi, other->hi)};
}
// Truncates; a zero divisor gives 0.
Known quotient(const Range& a, const Range& b) {
  if (b.lo == b.hi && b.lo > 0) return Range{a.lo / b.lo, a.hi / b.lo};
  if (b.lo < 0) return std::nullopt;
  return Range{std::min<int64_t>(a.lo, 0), std::max<int64_t>(a.hi, 0)};
}
// Of the dividend's sign, and below the divisor.
Known remainder(const Range& a, const Range& b) {
  if (b.lo <= 0) return std::nullopt;
  return Range{std::max(std::min<int64_t>(a.lo, 0), 1 - b.hi),
               std::min(std::max<int64_t>(a.hi, 0), b.hi - 1)};
}
// Every number whose highest bit is not above that of `largest`.
int64_t all_bits(int64_t largest) {
  int64_t bits = 0;
  while (bits < largest) bits = 2 * bits + 1;
  return bits;
}

}  // namespace

IntegerRange range_of_type(DType type) {
  if (type == DType::bool_) return {0, 1};
  int64_t half = int64_t{1} << (bit_width(type) - 1);
  return is_signed_integer(type) ? Range{-half, half - 1} : Range{0, 2 * half - 1};
}

std::optional<IntegerRange> range_of_operation(Op op, std::span<const IntegerRange> x) {
  switch (op) {
    case Op::ident:
    case Op::cast:
      return x[0];
    case Op::add:
      return sum(x[0], x[1]);
    case Op::sub: {
      Known other = negated(x[1]);
      return other ? sum(x[0], *other) : std::nullopt;
    }
    case Op::neg:
      return negated(x[0]);
    case Op::mul:
      return product(x[0], x[1]);
    case Op::min:
      return Range{std::min(x[0].lo, x[1].lo), std::min(x[0].hi, x[1].hi)};
    case Op::max:
      return Range{std::max(x[0].lo, x[1].lo), std::max(x[0].hi, x[1].hi)};
    case Op::abs:
      return magnitude(x[0]);
    case Op::select:
      return Range{std::min(x[1].lo, x[2].lo), std::max(x[1].hi, x[2].hi)};
    case Op::div:
      return quotient(x[0], x[1]);
    case Op::mod:
      return remainder(x[0], x[1]);
    case Op::bit_and:
      if (x[0].lo < 0 || x[1].lo < 0) return std::nullopt;
      return Range{0, std::min(x[0].hi, x[1].hi)};
    case Op::bit_or:
    case Op::bit_xor:
      if (x[0].lo < 0 || x[1].lo < 0) return std::nullopt;
      return Range{0, all_bits(std::max(x[0].hi, x[1].hi))};
    default:
      return std::nullopt;
  }
}

std::optional<IntegerRange> range_of_node(const Node& node, std::span<const Known> operands) {
  bool narrow = has_range(node.type);
  if (!narrow && node.type != DType::i64) return std::nullopt;
  Known all = narrow ? Known(range_of_type(node.type)) : std::nullopt;
  if (node.kind == NodeKind::integer) return Range{node.integer, node.integer};
  if (node.kind != NodeKind::operation) return all;
  std::vector<Range> ranges;
  for (const Known& k : operands) {
    if (!k) return all;
    ranges.push_back(*k);
  }
  Known r = range_of_operation(node.op, ranges);
  // A value that leaves its type wraps or saturates.
  bool inside = r && (!all || (r->lo >= all->lo && r->hi <= all->hi));
  return inside ? r : all;
}

IdVector<NodeId, std::optional<IntegerRange>> integer_ranges(const Body& body,
                                                             const LeafRange& leaf) {
  IdVector<NodeId, Known> known;
  for (const Node& node : body.nodes) {
    Known given = leaf && node.kind != NodeKind::operation ? leaf(node) : std::nullopt;
    std::vector<Known> operands;
    for (NodeId arg : node.args) operands.push_back(known[arg]);
    known.push_back(given ? given : range_of_node(node, operands));
  }
  return known;
}

IdVector<NodeId, std::optional<IntegerRange>> integer_ranges(const Piece& piece) {
  return integer_ranges(piece.body, [&](const Node& node) -> Known {
    size_t u = node.slot;
    if (node.kind != NodeKind::index || u >= piece.box.size()) return std::nullopt;
    return Range{0, std::max<int64_t>(piece.box[u] - 1, 0)};
  });
}

std::optional<DType> narrowest_type(const IntegerRange& range, int bits, int least) {
  for (DType narrow : {DType::u8, DType::i8, DType::u16, DType::i16}) {
    Range fits = range_of_type(narrow);
    bool holds = range.lo >= fits.lo && range.hi <= fits.hi;
    if (holds && bit_width(narrow) < bits && bit_width(narrow) >= least) return narrow;
  }
  return std::nullopt;
}

}  // namespace tile
