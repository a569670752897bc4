#include <algorithm>
#include <map>
#include <set>

#include "core/ir/analysis/integer_range.h"
#include "core/ir/analysis/uses.h"
#include "core/ir/operation_cost.h"
#include "core/passes/normalize/substitution.h"
#include "core/passes/optimize/optimize.h"
#include "core/support/choices.h"

namespace tile {
namespace {

constexpr size_t kNodeLimit = 96;  // nodes and loads of a body after inlining
constexpr size_t kLoadLimit = 16;
constexpr double kUnknownTrips = 16;
// Of the rate of multiply-adds, what a chain of other operations reaches.
constexpr double kOperationShare = 0.5;
// Cycles for writing an element and reading it again: an estimate, in the unit of cycles_in_turn().
constexpr double kStoreCost = 4;

// Of one element.
double node_cost(const Node& node) {
  if (node.kind == NodeKind::load) return 1;
  if (node.kind != NodeKind::operation || node.op == Op::cast || node.op == Op::ident) return 0;
  return cycles_in_turn(node.op);
}
// How often a fold's region runs, where its bounds say so.
double fold_trips(const Body& body, const Node& fold) {
  const Node &begin = body[fold.args[0]], &end = body[fold.args[1]];
  bool known = begin.kind == NodeKind::integer && end.kind == NodeKind::integer;
  return known ? static_cast<double>(std::max<int64_t>(0, end.integer - begin.integer))
               : kUnknownTrips;
}
double body_cost(const Body& body) {
  double cost = 0;
  for (const Node& node : body.nodes) {
    cost += node.kind == NodeKind::fold ? body_cost(*node.region) * fold_trips(body, node)
                                        : node_cost(node);
  }
  return cost;
}

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

// For each dimension of the result the iterator that indexes it, or none for the constant 0;
// nullopt: the statement is not a pointwise map onto every cell of its result. The dimension of a
// tuple's components is left out.
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
    const Affine& form = piece.stores[0].index[d].affine;
    if (piece.stores[0].index[d].value >= 0) return std::nullopt;
    IteratorId iterator;
    for (IteratorId u : piece.iterators.ids()) {
      if (form == iterator_affine(u)) iterator = u;
    }
    // A diagonal leaves the other cells at zero.
    if (iterator.valid() && std::find(map.begin(), map.end(), iterator) != map.end())
      return std::nullopt;
    bool zero = form == constant_affine(0) && result.shape[d] == 1;
    bool whole = iterator.valid() && piece.box[iterator] == result.shape[d];
    if (!zero && !whole) return std::nullopt;
    map.push_back(iterator);
  }
  return map;
}

struct Producer {
  const Contraction* statement;
  std::vector<IteratorId> map;
};

// The component of the producer's tuple that an access reads; nullopt: not one alone.
std::optional<size_t> component_read(const Producer& producer, const Access& access) {
  size_t count = producer.statement->outputs.size();
  if (count == 1) return 0;
  const Affine& last = access.index.back().affine;
  bool one = last.is_constant() && last.constant.is_integer();
  return one ? std::optional(static_cast<size_t>(last.constant.num())) : std::nullopt;
}

bool inlinable_access(const Access& access) {
  return std::all_of(access.index.begin(), access.index.end(), [](const Index& index) {
    return index.value < 0 && index.boundary == Boundary::in_range;
  });
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

// Whether a boundary rule of the consumer's access passes on to the producer's loads: they name the
// iterator alone, in a dimension as long as the producer's.
bool rules_pass(const BoundProgram& program, const Producer& producer, const Access& outer) {
  const Piece& source = producer.statement->pieces[0];
  std::vector<Boundary> rules = rules_of(producer, outer);
  for (size_t u = 0; u < rules.size(); ++u) {
    if (rules[u] == Boundary::in_range) continue;
    if (rules[u] == Boundary::constant) return false;
    bool named = false;
    visit_nodes(source.body, [&](const Node& n) {
      named = named || (n.kind == NodeKind::index && n.slot == u);
    });
    if (named) return false;
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

// Whether an index's value or a boundary rule needs an integral form.
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

// What one result needs, at most.
struct Needs {
  size_t nodes = 0, loads = 0;
};
Needs largest_needs(const Body& body) {
  Needs most;
  for (NodeId result : body.results) {
    IdVector<NodeId, bool> needed(body.nodes.size());
    needed[result] = true;
    Needs here;
    for (size_t i = needed.size(); i-- > 0;) {
      if (!needed[i]) continue;
      ++here.nodes;
      here.loads += body.nodes[i].kind == NodeKind::load ? 1 : 0;
      for (NodeId arg : body.nodes[i].args) needed[arg] = true;
    }
    most = {std::max(most.nodes, here.nodes), std::max(most.loads, here.loads)};
  }
  return most;
}

// The same cell, up to the component of a tuple.
bool same_cell(const Producer& producer, const Access& a, const Access& b) {
  for (size_t d = 0; d < producer.map.size(); ++d) {
    bool same =
        a.index[d].affine == b.index[d].affine && a.index[d].boundary == b.index[d].boundary;
    if (!same) return false;
  }
  return true;
}

class Inliner {
 public:
  Inliner(BoundProgram& program, const Target& target) : program_(program), target_(target) {}

  void run() {
    count_uses();
    for (BoundStatement& statement : program_.statements) {
      Contraction* c = std::get_if<Contraction>(&statement);
      if (c == nullptr) continue;
      for (Piece& piece : c->pieces) {
        if (!is_gpu(target_)) inline_windows(piece);
        inline_into(piece);
      }
      if (auto map = pointwise_map(program_, *c)) producers_[c->outputs[0]] = {c, *map};
    }
  }

 private:
  // Reads of each tensor's elements over the whole program.
  void count_uses() {
    for (const BoundStatement& statement : program_.statements) {
      const Contraction* c = std::get_if<Contraction>(&statement);
      if (c == nullptr) {
        for (TensorId id : read_by(statement)) stored_.insert(id);
        continue;
      }
      if (c->fill) stored_.insert(*c->fill);
      for (const Piece& piece : c->pieces) {
        for (const Access& a : piece.loads) {
          reads_[a.tensor] += 0;  // read by the domain alone, perhaps
          readers_[a.tensor].insert(&piece);
          if (!inlinable_access(a)) whole_.insert(a.tensor);
        }
        count_loads(piece, piece.body, point_count(piece));
      }
    }
    for (const BoundTensor& t : program_.tensors) {
      if (t.view_of) stored_.insert(*t.view_of);
    }
    for (TensorId id : program_.outputs) stored_.insert(id);
    whole_.insert(stored_.begin(), stored_.end());
  }

  void count_loads(const Piece& piece, const Body& body, double times) {
    for (const Node& node : body.nodes) {
      if (node.kind == NodeKind::load) {
        reads_[piece.loads[node.slot].tensor] += times;
      }
      if (node.region) count_loads(piece, *node.region, times * fold_trips(body, node));
    }
  }

  // A tensor that must be stored anyway is recomputed only if that costs less than reading it.
  bool worth(TensorId id, const Producer& producer) const {
    const Shape& shape = program_.tensors[id].shape;
    auto elements = static_cast<double>(std::max<int64_t>(1, element_count(shape)));
    double uses = reads_.at(id) / elements;
    double cost = body_cost(producer.statement->pieces[0].body);
    bool stored = whole_.contains(id);
    double recompute = cost * (stored ? uses : uses - 1);
    return recompute <= (stored ? uses : uses + kStoreCost);
  }

  // A temporary that one statement reads at several cells around a point can be kept on chip by no
  // group of stages: it goes through memory as a whole, or is computed anew for each of those
  // cells.
  void inline_windows(Piece& piece) {
    std::set<TensorId> tried;
    for (size_t slot = 0; slot < piece.loads.size(); ++slot) {
      TensorId id = piece.loads[slot].tensor;
      auto it = producers_.find(id);
      if (it == producers_.end() || !tried.insert(id).second || !is_window(piece, it->second)) {
        continue;
      }
      Piece computed = piece;
      for (size_t s = 0; s < piece.loads.size(); ++s) {
        if (piece.loads[s].tensor != id) continue;
        splice(computed, s, it->second, *component_read(it->second, piece.loads[s]));
        computed.body = tidied(computed.body);
      }
      Needs needs = largest_needs(computed.body);
      bool small = needs.nodes <= kNodeLimit && needs.loads <= kLoadLimit;
      bool cheaper =
          small && agreed("inline-windows " + program_.tensors[id].name, [&] {
            return recompute_ns(piece, computed, it->second) <= memory_ns(id, it->second);
          });
      if (!cheaper) continue;
      piece = std::move(computed);
      drop_unused_loads(piece);
      inline_windows(piece);
      return;
    }
  }

  // Whether all reads of a temporary are this piece's, at more cells than one.
  bool is_window(const Piece& piece, const Producer& producer) const {
    TensorId id = producer.statement->outputs[0];
    if (stored_.contains(id) || readers_.at(id).size() > 1) return false;
    const Piece& source = producer.statement->pieces[0];
    const Access* first = nullptr;
    bool several = false;
    for (const Access& load : piece.loads) {
      if (load.tensor != id) continue;
      bool affine = std::all_of(load.index.begin(), load.index.end(),
                                [](const Index& i) { return i.value < 0; });
      bool passes = affine && component_read(producer, load) &&
                    (!names_indices(source) || is_integral(load)) &&
                    rules_pass(program_, producer, load);
      if (!passes) return false;
      if (first == nullptr) first = &load;
      several = several || !same_cell(producer, *first, load);
    }
    return several && std::none_of(source.body.nodes.begin(), source.body.nodes.end(),
                                   [](const Node& n) { return n.kind == NodeKind::fold; });
  }

  // What a temporary's cells hold; nullopt: anything.
  static std::optional<IntegerRange> stored_range(const Piece& source) {
    IdVector<NodeId, std::optional<IntegerRange>> known = integer_ranges(source);
    std::optional<IntegerRange> all = known[source.body.results[0]];
    for (NodeId result : source.body.results) {
      const std::optional<IntegerRange>& one = known[result];
      if (!all || !one) return std::nullopt;
      all = IntegerRange{std::min(all->lo, one->lo), std::max(all->hi, one->hi)};
    }
    return all;
  }
  // Operations by the share of a 32-bit lane that their values need; `id` holds `stored`.
  static double lanes_cost(const Piece& piece, TensorId id,
                           const std::optional<IntegerRange>& stored) {
    auto leaf = [&](const Node& node) -> std::optional<IntegerRange> {
      bool load = node.kind == NodeKind::load;
      if (!load || piece.loads[node.slot].tensor != id) return std::nullopt;
      return stored;
    };
    IdVector<NodeId, std::optional<IntegerRange>> known = integer_ranges(piece.body, leaf);
    double cost = 0;
    for (size_t i = 0; i < known.size(); ++i) {
      std::optional<DType> narrow = known[i] ? narrowest_type(*known[i], 32) : std::nullopt;
      cost += node_cost(piece.body.nodes[i]) * (narrow ? bit_width(*narrow) / 32.0 : 1);
    }
    return cost;
  }
  double recompute_ns(const Piece& piece, const Piece& computed, const Producer& producer) const {
    const Piece& source = producer.statement->pieces[0];
    TensorId id = producer.statement->outputs[0];
    std::optional<IntegerRange> stored = stored_range(source);
    double more =
        point_count(piece) * (lanes_cost(computed, id, stored) - lanes_cost(piece, id, stored)) -
        point_count(source) * lanes_cost(source, id, stored);
    return more / (target_.threads * target_.fma_per_ns * kOperationShare);
  }
  // Lines are read before they are written, and read again.
  double memory_ns(TensorId id, const Producer& producer) const {
    const Piece& source = producer.statement->pieces[0];
    DType type = program_.tensors[id].type;
    std::optional<IntegerRange> stored = stored_range(source);
    if (stored) type = narrowest_type(*stored, bit_width(type)).value_or(type);
    double cell = static_cast<double>(byte_size(type) * source.body.results.size());
    double bytes = 3 * cell * point_count(source);
    double share = bytes / 3 / target_.threads;
    double rate = share > static_cast<double>(target_.l3_bytes)   ? target_.dram_bytes_per_ns
                  : share > static_cast<double>(target_.l2_bytes) ? target_.l3_bytes_per_ns
                                                                  : target_.l2_bytes_per_ns;
    return bytes / (target_.threads * rate);
  }

  void inline_into(Piece& piece) {
    for (size_t slot = 0; slot < piece.loads.size(); ++slot) {
      auto it = producers_.find(piece.loads[slot].tensor);
      if (it == producers_.end() || !inlinable_access(piece.loads[slot])) continue;
      const Piece& source = it->second.statement->pieces[0];
      std::optional<size_t> component = component_read(it->second, piece.loads[slot]);
      if (!component || (names_indices(source) && !is_integral(piece.loads[slot]))) continue;
      bool small = piece.body.nodes.size() + source.body.nodes.size() <= kNodeLimit &&
                   piece.loads.size() + source.loads.size() <= kLoadLimit;
      bool cheaper = small && agreed("inline-pointwise " + program_.tensors[it->first].name,
                                     [&] { return worth(it->first, it->second); });
      if (cheaper) splice(piece, slot, it->second, *component);
    }
    piece.body = tidied(piece.body);
    drop_unused_loads(piece);
  }

  static void splice(Piece& piece, size_t slot, const Producer& producer, size_t component) {
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

  BoundProgram& program_;
  const Target& target_;
  std::map<TensorId, double> reads_;
  std::map<TensorId, std::set<const Piece*>> readers_;
  std::set<TensorId> stored_;  // must be, whatever reads them
  // Must be stored as the reads are: outputs, fills, operands of sort and scatter, views, and what
  // is read under a boundary rule.
  std::set<TensorId> whole_;
  std::map<TensorId, Producer> producers_;
};

}  // namespace

void inline_pointwise(BoundProgram& program, const Target& target) {
  Inliner(program, target).run();
}

}  // namespace tile
