// Temporaries of integers take no more bits than their values need: what a body computes from
// bytes, comparisons and literals has a known range.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>

#include "core/passes/tensor_passes.h"
#include "core/passes/uses.h"

namespace tile {
namespace {

struct Range {
  int64_t lo = 0, hi = 0;
};
using Known = std::optional<Range>;  // nullopt: anything of the node's type

Range range_of_type(DType type) {
  if (type == DType::bool_) return {0, 1};
  int64_t half = int64_t{1} << (bit_width(type) - 1);
  return is_signed_integer(type) ? Range{-half, half - 1} : Range{0, 2 * half - 1};
}
// Up to 32 bits, so that sums of two ranges do not overflow.
bool has_range(DType type) {
  return type == DType::bool_ || (is_integer(type) && bit_width(type) <= 32);
}

// nullopt: a product of bounds needs more than 64 bits (two numbers of u32).
Known product(const Range& a, const Range& b) {
  std::array<int64_t, 4> all{};
  if (__builtin_mul_overflow(a.lo, b.lo, &all[0]) || __builtin_mul_overflow(a.lo, b.hi, &all[1]) ||
      __builtin_mul_overflow(a.hi, b.lo, &all[2]) || __builtin_mul_overflow(a.hi, b.hi, &all[3]))
    return std::nullopt;
  return Range{*std::min_element(all.begin(), all.end()),
               *std::max_element(all.begin(), all.end())};
}
// Every number whose highest bit is not above that of `largest`.
int64_t all_bits(int64_t largest) {
  int64_t bits = 0;
  while (bits < largest) bits = 2 * bits + 1;
  return bits;
}

// The result where no operand is outside its range; nullopt where nothing is known.
Known combined(Op op, const std::vector<Range>& x) {
  switch (op) {
    case Op::ident:
    case Op::cast:
      return x[0];
    case Op::add:
      return Range{x[0].lo + x[1].lo, x[0].hi + x[1].hi};
    case Op::sub:
      return Range{x[0].lo - x[1].hi, x[0].hi - x[1].lo};
    case Op::neg:
      return Range{-x[0].hi, -x[0].lo};
    case Op::mul:
      return product(x[0], x[1]);
    case Op::min:
      return Range{std::min(x[0].lo, x[1].lo), std::min(x[0].hi, x[1].hi)};
    case Op::max:
      return Range{std::max(x[0].lo, x[1].lo), std::max(x[0].hi, x[1].hi)};
    case Op::abs:
      return Range{0, std::max(std::abs(x[0].lo), std::abs(x[0].hi))};
    case Op::select:
      return Range{std::min(x[1].lo, x[2].lo), std::max(x[1].hi, x[2].hi)};
    case Op::div:  // truncates; a zero divisor gives 0
      if (x[1].lo != x[1].hi || x[1].lo <= 0) return std::nullopt;
      return Range{x[0].lo / x[1].lo, x[0].hi / x[1].lo};
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

Known range_of(const Node& node, const std::vector<Known>& known) {
  if (!has_range(node.type)) return std::nullopt;
  Range all = range_of_type(node.type);
  if (node.kind == NodeKind::integer) return Range{node.integer, node.integer};
  if (node.kind != NodeKind::operation) return all;
  std::vector<Range> operands;
  for (NodeId arg : node.args) {
    const Known& k = known[static_cast<size_t>(arg)];
    if (!k) return all;
    operands.push_back(*k);
  }
  Known r = combined(node.op, operands);
  // A value that leaves its type wraps or saturates.
  return r && r->lo >= all.lo && r->hi <= all.hi ? *r : all;
}

std::vector<Range> ranges_of_results(const Body& body) {
  std::vector<Known> known;
  for (const Node& node : body.nodes) known.push_back(range_of(node, known));
  std::vector<Range> results;
  for (NodeId id : body.results) {
    constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
    results.push_back(known[static_cast<size_t>(id)].value_or(Range{-kFar, kFar}));
  }
  return results;
}

// The narrowest type below `type` that holds the range.
std::optional<DType> narrowest(const Range& r, DType type) {
  for (DType narrow : {DType::u8, DType::i8, DType::u16, DType::i16}) {
    Range fits = range_of_type(narrow);
    bool holds = r.lo >= fits.lo && r.hi <= fits.hi;
    if (holds && bit_width(narrow) < bit_width(type)) return narrow;
  }
  return std::nullopt;
}

class Narrowing {
 public:
  explicit Narrowing(BoundProgram& program) : program_(program) {}

  void run() {
    for (BoundStatement& statement : program_.statements) {
      Contraction* c = std::get_if<Contraction>(&statement);
      if (c == nullptr) continue;
      for (Piece& piece : c->pieces) widen_loads(piece);
      note(*c);
    }
  }

 private:
  BoundTensor& tensor(TensorId id) { return program_.tensors[static_cast<size_t>(id)]; }

  // Each cell is one point's value: nothing is aggregated, nothing else writes.
  void note(const Contraction& c) {
    bool plain = c.normalized && c.pieces.size() == 1 && !c.fill;
    if (!plain || c.pieces[0].owners != c.pieces[0].unknowns.size()) return;
    std::vector<Range> results = ranges_of_results(c.pieces[0].body);
    std::map<TensorId, Range> stored;
    for (size_t o = 0; o < results.size(); ++o) {
      Range with_zero{std::min<int64_t>(results[o].lo, 0), std::max<int64_t>(results[o].hi, 0)};
      auto [it, fresh] = stored.try_emplace(c.outputs[o], with_zero);
      it->second = {std::min(it->second.lo, with_zero.lo), std::max(it->second.hi, with_zero.hi)};
    }
    for (const auto& [id, range] : stored) {
      if (!may_change(id)) continue;
      std::optional<DType> narrow = narrowest(range, tensor(id).type);
      if (!narrow) continue;
      was_[id] = tensor(id).type;
      tensor(id).type = *narrow;
    }
  }
  bool may_change(TensorId id) {
    const BoundTensor& t = tensor(id);
    if (t.role != TensorRole::temporary || t.view_of || t.constant || !has_range(t.type)) {
      return false;
    }
    if (t.type == DType::bool_) return false;
    if (std::find(program_.outputs.begin(), program_.outputs.end(), id) != program_.outputs.end()) {
      return false;
    }
    bool viewed = std::any_of(program_.tensors.begin(), program_.tensors.end(),
                              [&](const BoundTensor& other) { return other.view_of == id; });
    return !viewed && std::all_of(program_.statements.begin(), program_.statements.end(),
                                  [&](const BoundStatement& s) { return reads_by_loads(s, id); });
  }
  static bool reads_by_loads(const BoundStatement& statement, TensorId id) {
    if (const auto* c = std::get_if<Contraction>(&statement)) return c->fill != id;
    std::vector<TensorId> reads = read_by(statement);
    return std::find(reads.begin(), reads.end(), id) == reads.end();
  }

  void widen_loads(Piece& piece) {
    auto narrowed = [&](const Node& node) {
      return node.kind == NodeKind::load &&
             was_.contains(piece.loads[static_cast<size_t>(node.slot)].tensor);
    };
    bool any = false;
    visit_nodes(piece.body, [&](const Node& node) { any = any || narrowed(node); });
    if (!any) return;
    piece.body = rewritten(piece.body, [&](Body& into, const Node& node) -> NodeId {
      if (!narrowed(node)) return -1;
      Node load = node;
      load.type = tensor(piece.loads[static_cast<size_t>(node.slot)].tensor).type;
      NodeId narrow = into.add(std::move(load));
      return into.cast(narrow, node.type, node.span);
    });
  }

  BoundProgram& program_;
  std::map<TensorId, DType> was_;
};

}  // namespace

void narrow_temporaries(BoundProgram& program, const Target&) { Narrowing(program).run(); }

}  // namespace tile
