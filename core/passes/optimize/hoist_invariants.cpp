// Values that vary along fewer dimensions than the points of their statement become tensors: the
// reciprocal roots of 64 channels are computed 64 times, not once for each pixel of each channel.
// The values are those that they were, bit by bit: they are stored in the type that they are
// computed in. What varies along rows only is left to lowering, which keeps it in registers.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "core/ir/analysis/uses.h"
#include "core/passes/normalize/index_forms.h"
#include "core/passes/normalize/substitution.h"
#include "core/passes/optimize/optimize.h"

namespace tile {
namespace {

constexpr double kPoints = 1 << 16;  // fewer take less time than one more statement
constexpr double kRepeats = 64;      // how often a value that is stored was computed at least
constexpr size_t kLongest = 24;      // nodes

bool is_dear(const Node& node) {
  if (node.kind != NodeKind::operation) return false;
  return info(node.op).rule == TypeRule::floating || node.op == Op::div || node.op == Op::mod;
}

// Finds the values of one piece.
class Values {
 public:
  Values(const BoundProgram& program, const Piece& piece) : program_(program), piece_(piece) {
    Piece whole = piece;
    whole.constraints.clear();
    for (const Access& load : piece.loads) loads_.push_back(unknowns_of(whole, load));
    for (const Node& node : piece.body.nodes) known_.push_back(of(node));
  }

  // The nodes to store: each is an operand of something that is not, or a result.
  std::vector<NodeId> found() const {
    std::set<NodeId> list;
    for (const Node& node : piece_.body.nodes) {
      bool stored = worth(known_[static_cast<size_t>(&node - piece_.body.nodes.data())]);
      for (NodeId arg : node.args) {
        if (!stored && worth(known_[static_cast<size_t>(arg)])) list.insert(arg);
      }
    }
    return {list.begin(), list.end()};
  }
  const std::set<size_t>& unknowns(NodeId id) const {
    return known_[static_cast<size_t>(id)].unknowns;
  }

 private:
  struct Value {
    bool plain = false;  // reads elements at any place of its unknowns, and has no loops
    bool dear = false;
    size_t nodes = 1;
    std::set<size_t> unknowns;
  };

  // nullopt: not an element at each place.
  std::optional<std::set<size_t>> unknowns_of(const Piece& whole, const Access& load) const {
    IndexForms forms(whole);
    const Shape& shape = program_.tensors[static_cast<size_t>(load.tensor)].shape;
    std::set<size_t> unknowns;
    for (size_t d = 0; d < load.index.size(); ++d) {
      const Index& index = load.index[d];
      bool plain = index.value < 0 && index.boundary == Boundary::in_range &&
                   forms.within(index.affine, 0, shape[d]);
      if (!plain) return std::nullopt;
      for (size_t u = 0; u < whole.unknowns.size(); ++u) {
        if (!index.affine.coefficient(u).is_zero()) unknowns.insert(u);
      }
    }
    return unknowns;
  }

  Value of(const Node& node) const {
    Value value;
    value.dear = is_dear(node);
    switch (node.kind) {
      case NodeKind::integer:
      case NodeKind::real:
        value.plain = true;
        return value;
      case NodeKind::load: {
        const auto& unknowns = loads_[static_cast<size_t>(node.slot)];
        value.plain = unknowns && node.args.empty();
        if (unknowns) value.unknowns = *unknowns;
        return value;
      }
      case NodeKind::operation:
        value.plain = is_float(node.type) && node.type == compute_type(node.type);
        break;
      default:
        return value;
    }
    for (NodeId arg : node.args) {
      const Value& operand = known_[static_cast<size_t>(arg)];
      value.plain = value.plain && operand.plain;
      value.dear = value.dear || operand.dear;
      value.nodes += operand.nodes;
      value.unknowns.insert(operand.unknowns.begin(), operand.unknowns.end());
    }
    return value;
  }

  bool worth(const Value& value) const {
    if (!value.plain || !value.dear || value.nodes > kLongest) return false;
    double cells = 1;
    for (size_t u : value.unknowns) cells *= static_cast<double>(piece_.box[u]);
    return cells * kRepeats <= point_count(piece_) && varies_inside(value.unknowns);
  }
  // Along the dimension whose neighbours are neighbours in memory.
  bool varies_inside(const std::set<size_t>& unknowns) const {
    for (const Access& load : piece_.loads) {
      const auto& own = loads_[static_cast<size_t>(&load - piece_.loads.data())];
      if (!own || own->size() <= unknowns.size() || load.index.empty()) continue;
      for (size_t u : unknowns) {
        if (load.index.back().affine == unknown_affine(u)) return true;
      }
    }
    return false;
  }

  const BoundProgram& program_;
  const Piece& piece_;
  std::vector<std::optional<std::set<size_t>>> loads_;
  std::vector<Value> known_;
};

class Hoister {
 public:
  explicit Hoister(BoundProgram& program) : program_(program) {}

  void run() {
    std::vector<BoundStatement> statements;
    for (BoundStatement& statement : program_.statements) {
      auto* c = std::get_if<Contraction>(&statement);
      if (c != nullptr && c->normalized && c->pieces.size() == 1) hoist(*c, statements);
      statements.push_back(std::move(statement));
    }
    program_.statements = std::move(statements);
  }

 private:
  void hoist(Contraction& c, std::vector<BoundStatement>& before) {
    Piece& piece = c.pieces[0];
    if (piece.box.empty() || point_count(piece) < kPoints) return;
    std::map<NodeId, int> slots;
    {
      Values values(program_, piece);
      std::vector<Access> cells;
      for (NodeId id : values.found()) {
        slots[id] = static_cast<int>(piece.loads.size() + cells.size());
        cells.push_back(store(c, id, values.unknowns(id), before));
      }
      if (slots.empty()) return;
      piece.loads.insert(piece.loads.end(), cells.begin(), cells.end());
    }
    piece.body = replaced(piece.body, slots);
    drop_unused_loads(piece);
  }

  static Body replaced(const Body& from, const std::map<NodeId, int>& slots) {
    Body body = from;
    for (const auto& [id, slot] : slots) {
      Node& node = body.nodes[static_cast<size_t>(id)];
      Node load;
      load.kind = NodeKind::load;
      load.type = node.type;
      load.slot = slot;
      load.span = node.span;
      node = std::move(load);
    }
    return tidied(body);
  }

  // A statement that computes the node for each place of its unknowns; returns the read of it.
  Access store(const Contraction& c, NodeId id, const std::set<size_t>& unknowns,
               std::vector<BoundStatement>& before) {
    const Piece& piece = c.pieces[0];
    const Node& node = piece.body[id];
    BoundTensor tensor;
    tensor.name = fresh(program_.tensors[static_cast<size_t>(c.outputs[0])].name + "_part");
    tensor.type = node.type;
    Access read, written;
    Piece made;
    std::vector<Affine> forms(piece.unknowns.size(), constant_affine(0));
    for (size_t u : unknowns) {
      forms[u] = unknown_affine(made.unknowns.size());
      read.index.push_back({unknown_affine(u)});
      written.index.push_back({forms[u]});
      made.unknowns.push_back("p" + std::to_string(made.unknowns.size()));
      made.box.push_back(piece.box[u]);
      tensor.shape.push_back(piece.box[u]);
    }
    read.tensor = written.tensor = static_cast<TensorId>(program_.tensors.size());
    read.span = written.span = node.span;
    made.owners = made.unknowns.size();
    made.stores = {written};
    made.loads = piece.loads;
    made.body = piece.body;
    made.body.results = {id};
    made.body = tidied(made.body);
    drop_unused_loads(made);
    for (Access& load : made.loads) {
      for (Index& index : load.index) index.affine = substitute(index.affine, forms);
    }
    program_.tensors.push_back(std::move(tensor));
    Contraction statement;
    statement.outputs = {read.tensor};
    statement.accumulator = node.type;
    statement.pieces = {std::move(made)};
    statement.normalized = true;
    statement.span = c.span;
    before.emplace_back(std::move(statement));
    return read;
  }

  std::string fresh(const std::string& name) {
    if (names_.empty()) {
      for (const BoundTensor& t : program_.tensors) names_.insert(t.name);
    }
    std::string candidate = name;
    for (int n = 1; !names_.insert(candidate).second; ++n) {
      candidate = name + "_" + std::to_string(n);
    }
    return candidate;
  }

  BoundProgram& program_;
  std::set<std::string> names_;
};

}  // namespace

void hoist_invariants(BoundProgram& program, const Target&) { Hoister(program).run(); }

}  // namespace tile
