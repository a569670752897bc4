#include "core/passes/optimize/pointwise_producer.h"

#include <algorithm>
#include <utility>

#include "core/ir/analysis/accesses.h"
#include "core/passes/normalize/substitution.h"

namespace tile {
namespace {

// A tuple's components: the stores are alike but for the last index, which counts them.
bool stores_components(const Contraction& c, const BoundTensor& result) {
  const std::vector<Access>& stores = c.pieces[0].stores;
  if (result.shape.empty() || result.shape.back() != std::ssize(stores)) return false;
  for (size_t o = 0; o < stores.size(); ++o) {
    bool counts = stores[o].index.back().affine == constant_affine(static_cast<int64_t>(o));
    if (c.outputs[o] != c.outputs[0] || !counts) return false;
    for (size_t d = 0; d + 1 < result.shape.size(); ++d) {
      if (!(stores[o].index[d].affine == stores[0].index[d].affine)) return false;
    }
  }
  return true;
}

// The producer's iterators as the consumer's access `outer` fixes them: its index forms, and zero
// for iterators of extent one that index nothing.
std::vector<Affine> forms_of(const Producer& producer, const Access& outer) {
  IdVector<IteratorId, Affine> replacement(producer.statement->pieces[0].iterators.size(),
                                           constant_affine(0));
  for (size_t d = 0; d < producer.map.size(); ++d) {
    if (producer.map[d].valid()) replacement[producer.map[d]] = outer.index[d].affine;
  }
  return replacement;
}

// The boundary rule under which the consumer reads each of the producer's iterators.
IdVector<IteratorId, Boundary> rules_of(const Producer& producer, const Access& outer) {
  IdVector<IteratorId, Boundary> rules(producer.statement->pieces[0].iterators.size(),
                                       Boundary::in_range);
  for (size_t d = 0; d < producer.map.size(); ++d) {
    if (producer.map[d].valid()) rules[producer.map[d]] = outer.index[d].boundary;
  }
  return rules;
}

// The producer's load as seen from the consumer. The rule of an iterator is that of the one index
// that names it (see rules_pass).
Access composed(const Access& inner, const std::vector<Affine>& forms,
                const std::vector<Boundary>& rules) {
  Access result = inner;
  for (Index& index : result.index) {
    if (index.value >= 0) continue;
    for (size_t u = 0; u < rules.size(); ++u) {
      bool ruled = rules[u] != Boundary::in_range && index.affine == iterator_affine(u);
      if (ruled) index.boundary = rules[u];
    }
    index.affine = substitute(index.affine, forms);
  }
  return result;
}

}  // namespace

std::optional<std::vector<IteratorId>> pointwise_map(const BoundProgram& program,
                                                     const Contraction& c) {
  if (c.pieces.size() != 1 || c.fill || !c.normalized) return std::nullopt;
  const Piece& piece = c.pieces[0];
  if (piece.parallel_dims != piece.iterators.size() || !piece.constraints.empty())
    return std::nullopt;
  const BoundTensor& result = program.tensors[c.outputs[0]];
  if (result.view_of) return std::nullopt;
  bool tuple = c.outputs.size() > 1;
  if (tuple && !stores_components(c, result)) return std::nullopt;
  std::vector<IteratorId> map;
  for (size_t d = 0; d + (tuple ? 1 : 0) < result.shape.size(); ++d) {
    const Index& index = piece.stores[0].index[d];
    IteratorId iterator = sole_iterator(index, piece);
    // A diagonal leaves the other cells at zero.
    if (iterator.valid() && std::find(map.begin(), map.end(), iterator) != map.end())
      return std::nullopt;
    bool zero = index.affine == constant_affine(0) && index.value < 0 && result.shape[d] == 1;
    bool whole = iterator.valid() && piece.box[iterator] == result.shape[d];
    if (!zero && !whole) return std::nullopt;
    map.push_back(iterator);
  }
  return map;
}

std::optional<size_t> component_read(const Producer& producer, const Access& access) {
  size_t count = producer.statement->outputs.size();
  if (count == 1) return 0;
  const Affine& last = access.index.back().affine;
  bool one = last.is_constant() && last.constant.is_integer();
  return one ? std::optional(static_cast<size_t>(last.constant.num())) : std::nullopt;
}

bool inlinable_access(const Access& access) {
  return std::all_of(access.index.begin(), access.index.end(),
                     [](const Index& index) { return is_plain_index(index); });
}

bool rules_pass(const BoundProgram& program, const Producer& producer, const Access& outer) {
  const Piece& source = producer.statement->pieces[0];
  std::vector<Boundary> rules = rules_of(producer, outer);
  for (size_t u = 0; u < rules.size(); ++u) {
    if (rules[u] == Boundary::in_range) continue;
    if (rules[u] == Boundary::constant) return false;
    if (names_index(source.body, u)) return false;
    for (const Access& load : source.loads) {
      const Shape& shape = program.tensors[load.tensor].shape;
      for (size_t d = 0; d < load.index.size(); ++d) {
        const Index& index = load.index[d];
        bool uses = index.value < 0 && u < index.affine.coefficients.size() &&
                    !index.affine.coefficients[u].is_zero();
        bool alone = index.affine == iterator_affine(u) && shape[d] == source.box[u] &&
                     (index.boundary == Boundary::in_range || index.boundary == rules[u]);
        if (uses && !alone) return false;
      }
    }
  }
  return true;
}

bool names_indices(const Piece& piece) {
  bool named = false;
  visit_nodes(piece.body, [&](const Node& n) { named = named || n.kind == NodeKind::index; });
  for (const Access& a : piece.loads) {
    for (const Index& i : a.index) named = named || i.boundary != Boundary::in_range;
  }
  return named;
}
bool is_integral(const Access& access) {
  return std::all_of(access.index.begin(), access.index.end(),
                     [](const Index& index) { return index.affine.is_integral(); });
}

bool same_cell(const Producer& producer, const Access& a, const Access& b) {
  for (size_t d = 0; d < producer.map.size(); ++d) {
    bool same =
        a.index[d].affine == b.index[d].affine && a.index[d].boundary == b.index[d].boundary;
    if (!same) return false;
  }
  return true;
}

void splice(Piece& piece, size_t slot, const Producer& producer, size_t component) {
  const Piece& source = producer.statement->pieces[0];
  std::vector<Affine> forms = forms_of(producer, piece.loads[slot]);
  std::vector<Boundary> rules = rules_of(producer, piece.loads[slot]);
  std::vector<int> new_slot;
  for (const Access& inner : source.loads) {
    new_slot.push_back(position_of(piece.loads, composed(inner, forms, rules)));
  }
  Leaf moved = [&](Body& into, const Node& leaf) -> NodeId {
    if (leaf.kind == NodeKind::index) {
      const Affine& form = forms[leaf.slot];
      return into.cast(affine_value(into, form, leaf.span), leaf.type, leaf.span);
    }
    if (leaf.kind != NodeKind::load) return NodeId();
    Node load = leaf;
    load.slot = new_slot[leaf.slot];
    return into.add(std::move(load));
  };
  piece.body = rewritten(piece.body, [&](Body& into, const Node& node) -> NodeId {
    if (node.kind != NodeKind::load || node.slot != slot) return NodeId();
    NodeId value = graft(into, source.body, source.body.results[component], moved);
    // Storing would have rounded the value to the tensor's type (rule 5.7).
    return into.cast(value, node.type, node.span);
  });
}

Access composed(const Access& inner, const Producer& producer, const Access& outer) {
  return composed(inner, forms_of(producer, outer), rules_of(producer, outer));
}

}  // namespace tile
