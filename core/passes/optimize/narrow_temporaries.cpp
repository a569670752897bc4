// Temporaries and constants of integers take no more bits than their values need: what a body
// computes from bytes, comparisons and literals has a known range.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "core/ir/analysis/integer_range.h"
#include "core/ir/analysis/statement_uses.h"
#include "core/ir/scalar.h"
#include "core/passes/optimize/optimize.h"

namespace tile {
namespace {

using Range = IntegerRange;

std::vector<Range> ranges_of_results(const Body& body) {
  IdVector<NodeId, std::optional<Range>> known = integer_ranges(body);
  std::vector<Range> results;
  for (NodeId id : body.results) {
    constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
    results.push_back(known[id].value_or(Range{-kFar, kFar}));
  }
  return results;
}

class Narrowing {
 public:
  explicit Narrowing(BoundProgram& program) : program_(program), uses_(program) {}

  void run() {
    for (TensorId id : program_.tensors.ids()) {
      if (program_.tensors[id].constant) narrow_constant(id);
    }
    for (BoundStatement& statement : program_.statements) {
      Contraction* c = std::get_if<Contraction>(&statement);
      if (c == nullptr) continue;
      for (Piece& piece : c->pieces) widen_loads(piece);
      note(*c);
    }
  }

 private:
  const BoundTensor& tensor(TensorId id) const { return program_.tensors[id]; }

  void narrow_constant(TensorId id) {
    const BoundTensor& t = tensor(id);
    size_t from = byte_size(t.type), count = t.constant->size() / from;
    if (count == 0 || !may_change(id)) return;
    auto element = [&](size_t i) { return load_element(&(*t.constant)[i * from], t.type); };
    Range all{element(0).i, element(0).i};
    for (size_t i = 1; i < count; ++i) {
      all = {std::min(all.lo, element(i).i), std::max(all.hi, element(i).i)};
    }
    std::optional<DType> narrow = narrowest_type(all, bit_width(t.type));
    if (!narrow) return;
    std::vector<std::byte> bytes(count * byte_size(*narrow));
    for (size_t i = 0; i < count; ++i) {
      store_element(&bytes[i * byte_size(*narrow)], convert(element(i), *narrow));
    }
    was_[id] = t.type;
    BoundTensor& narrowed = program_.tensors.edit(id);
    narrowed.constant = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    narrowed.type = *narrow;
  }

  // Each cell is one point's value: nothing is aggregated, nothing else writes.
  void note(const Contraction& c) {
    bool plain = c.normalized && c.pieces.size() == 1 && !c.fill;
    if (!plain || c.pieces[0].parallel_dims != c.pieces[0].iterators.size()) return;
    std::vector<Range> results = ranges_of_results(c.pieces[0].body);
    std::map<TensorId, Range> stored;
    for (size_t o = 0; o < results.size(); ++o) {
      Range with_zero{std::min<int64_t>(results[o].lo, 0), std::max<int64_t>(results[o].hi, 0)};
      auto [it, fresh] = stored.try_emplace(c.outputs[o], with_zero);
      it->second = {std::min(it->second.lo, with_zero.lo), std::max(it->second.hi, with_zero.hi)};
    }
    for (const auto& [id, range] : stored) {
      if (!may_change(id)) continue;
      std::optional<DType> narrow = narrowest_type(range, bit_width(tensor(id).type));
      if (!narrow) continue;
      was_[id] = tensor(id).type;
      program_.tensors.edit(id).type = *narrow;
    }
  }
  bool may_change(TensorId id) {
    const BoundTensor& t = tensor(id);
    if (t.role != TensorRole::temporary || t.view_of || !is_integer(t.type) ||
        bit_width(t.type) > 32) {
      return false;
    }
    const std::vector<size_t>& readers = uses_.readers(id);
    return uses_.is_inner(id) && std::all_of(readers.begin(), readers.end(), [&](size_t i) {
             const auto* c = std::get_if<Contraction>(&program_.statements[i]);
             return c != nullptr && c->fill != id;  // by loads
           });
  }

  void widen_loads(Piece& piece) {
    auto narrowed = [&](const Node& node) {
      return node.kind == NodeKind::load && was_.contains(piece.loads[node.slot].tensor);
    };
    bool any = false;
    visit_nodes(piece.body, [&](const Node& node) { any = any || narrowed(node); });
    if (!any) return;
    piece.body = rewritten(piece.body, [&](Body& into, const Node& node) -> NodeId {
      if (!narrowed(node)) return NodeId();
      Node load = node;
      load.type = tensor(piece.loads[node.slot].tensor).type;
      NodeId narrow = into.add(std::move(load));
      return into.cast(narrow, node.type, node.span);
    });
  }

  BoundProgram& program_;
  const StatementUses uses_;  // what is narrower is read by the same statements
  std::map<TensorId, DType> was_;
};

}  // namespace

void narrow_temporaries(BoundProgram& program, const Target&) { Narrowing(program).run(); }

}  // namespace tile
