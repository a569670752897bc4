#include <algorithm>
#include <map>
#include <set>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/integer_range.h"
#include "core/ir/analysis/statement_uses.h"
#include "core/ir/analysis/uses.h"
#include "core/ir/operation_cost.h"
#include "core/passes/normalize/substitution.h"
#include "core/passes/optimize/optimize.h"
#include "core/passes/optimize/pointwise_producer.h"
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
// On a GPU that reads and writes 4 TB/s and has 30e12 instructions, four bytes are worth 28 of
// them.
constexpr int kRecomputed = 20;
constexpr double kCheap = 2;  // instructions of an operation that every element has
// A tensor of so many times fewer elements holds numbers of rows.
constexpr double kNumbersOfRow = 8;

// Of one element.
double node_cost(const Node& node) {
  if (node.kind == NodeKind::load) return 1;
  if (node.kind != NodeKind::operation || node.op == Op::cast || node.op == Op::ident) return 0;
  return cycles_in_turn(node.op);
}
// Of a thread of a GPU, for one element.
int instructions(const Body& body) {
  int count = 0;
  for (const Node& node : body.nodes) {
    if (node.kind == NodeKind::fold) return kRecomputed + 1;
    if (node.kind == NodeKind::operation) count += static_cast<int>(cost_of(node.op).instructions);
  }
  return count;
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

// By iterator, whether it changes the node's value; those of the node's arguments are known.
std::vector<bool> moved_by(const Piece& piece, const Node& node,
                           const IdVector<NodeId, std::vector<bool>>& known) {
  bool anywhere = node.kind == NodeKind::fold ||
                  (node.kind == NodeKind::load && !inlinable_access(piece.loads[node.slot]));
  std::vector<bool> moved(piece.box.size(), anywhere);
  if (anywhere) return moved;
  for (IteratorId u : piece.box.ids()) {
    size_t i = u.index();
    if (node.kind == NodeKind::index) moved[i] = node.slot == i;
    if (node.kind == NodeKind::load) moved[i] = moves_with(piece.loads[node.slot], i);
    for (NodeId arg : node.args) moved[i] = moved[i] || known[arg][i];
  }
  return moved;
}
// Of one element, where what some of the iterators do not change is computed outside their loops:
// the mean of a row is, which all of its elements take part in.
double cost_in_loops(const Piece& piece) {
  IdVector<NodeId, std::vector<bool>> moved;
  double cost = 0;
  for (const Node& node : piece.body.nodes) {
    moved.push_back(moved_by(piece, node, moved));
    double own = node.kind == NodeKind::fold
                     ? body_cost(*node.region) * fold_trips(piece.body, node)
                     : node_cost(node);
    for (IteratorId u : piece.box.ids()) {
      if (!moved.back()[u.index()]) own /= static_cast<double>(std::max<int64_t>(1, piece.box[u]));
    }
    cost += own;
  }
  return cost;
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
    stored_.merge(seen_outside(program_));
    whole_.insert(stored_.begin(), stored_.end());
  }

  void count_loads(const Piece& piece, const Body& body, double times) {
    for (const Node& node : body.nodes) {
      if (node.kind == NodeKind::load) {
        TensorId id = piece.loads[node.slot].tensor;
        reads_[id] += times;
        const Shape& shape = program_.tensors[id].shape;
        if (times > static_cast<double>(element_count(shape))) shared_.insert(id);
      }
      if (node.region) count_loads(piece, *node.region, times * fold_trips(body, node));
    }
  }

  // A tensor that must be stored anyway is recomputed only if that costs less than reading it.
  bool worth(TensorId id, const Producer& producer) const {
    const Shape& shape = program_.tensors[id].shape;
    auto elements = static_cast<double>(std::max<int64_t>(1, element_count(shape)));
    double uses = reads_.at(id) / elements;
    // Products read an element many times, and other loops may stand between.
    bool in_loops = !is_gpu(target_) && !shared_.contains(id);
    const Piece& source = producer.statement->pieces[0];
    double cost = in_loops ? cost_in_loops(source) : body_cost(source.body);
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
      bool cheaper = small && (agreed("inline-pointwise " + program_.tensors[it->first].name,
                                      [&] { return worth(it->first, it->second); }) ||
                               is_summed_across_rows(piece, piece.loads[slot], it->second) ||
                               widens(it->second));
      if (cheaper) splice(piece, slot, it->second, *component);
    }
    piece.body = tidied(piece.body);
    drop_unused_loads(piece);
  }

  // On a GPU, a sum over rows of what is made of one tensor and of numbers of each row, which no
  // kernel of these rows has on its way: it reads that tensor instead, and nothing is stored for it
  // where the rows' own kernel has all other readers.
  bool is_summed_across_rows(const Piece& piece, const Access& load,
                             const Producer& producer) const {
    const Piece& source = producer.statement->pieces[0];
    bool once = piece.parallel_dims < piece.box.size() && point_count(piece) == point_count(source);
    if (!is_gpu(target_) || !once || instructions(source.body) > kRecomputed) return false;
    int whole = 0, of_rows = 0;
    for (const Access& inner : source.loads) {
      const BoundTensor& tensor = program_.tensors[inner.tensor];
      auto count = static_cast<double>(element_count(tensor.shape));
      if (count * kNumbersOfRow > point_count(source)) {
        bool wider = byte_size(tensor.type) > byte_size(program_.tensors[load.tensor].type);
        whole += wider || count > point_count(source) ? 2 : 1;
        continue;
      }
      Access moved = composed(inner, producer, load);
      bool reduced = false, kept = false;
      for (IteratorId u : piece.box.ids()) {
        if (moves_with(moved, u.index())) (piece.is_parallel(u) ? kept : reduced) = true;
      }
      of_rows += reduced && !kept ? 1 : 0;
    }
    return whole == 1 && of_rows > 0;
  }

  // On a GPU, what cheap operations make of one tensor of a narrower type and of numbers of rows or
  // columns, as a normalized element in f32 is made of a bf16, a mean and a variance: every reader
  // moves fewer bytes where it reads that tensor instead, and nothing wide is stored.
  bool widens(const Producer& producer) const {
    const Piece& source = producer.statement->pieces[0];
    if (!is_gpu(target_) || source.body.results.size() != 1) return false;
    size_t width = byte_size(program_.tensors[producer.statement->outputs[0]].type), bytes = 0;
    double each = 0, of_numbers = 0;  // instructions of what every element has, and of the others
    std::vector<bool> whole;          // by node: made of elements that are as many as the result's
    for (const Node& n : source.body.nodes) {
      bool made = false;
      for (NodeId a : n.args) made = made || whole[a.index()];
      if (n.kind == NodeKind::fold) return false;
      if (n.kind == NodeKind::load) {
        const BoundTensor& tensor = program_.tensors[source.loads[n.slot].tensor];
        auto count = static_cast<double>(element_count(tensor.shape));
        made = made || count * kNumbersOfRow > point_count(source);
        if (count > point_count(source) || (made && byte_size(tensor.type) >= width)) return false;
        if (made) bytes += byte_size(tensor.type);
      }
      double own = n.kind == NodeKind::operation ? cost_of(n.op).instructions : 0;
      if (made && own > kCheap) return false;
      (made ? each : of_numbers) += own;
      whole.push_back(made);
    }
    return bytes > 0 && bytes < width && each + of_numbers <= kRecomputed;
  }

  BoundProgram& program_;
  const Target& target_;
  std::map<TensorId, double> reads_;
  std::map<TensorId, std::set<const Piece*>> readers_;
  std::set<TensorId> shared_;  // of whose elements a reader reads some more than once
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
