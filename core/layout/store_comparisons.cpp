// Elements that a statement reads only to compare them, or what cheap operations make of them, with
// a number, as gradients of relu ask which elements were positive: it reads the comparison's
// result, a byte, which is made where the elements are at hand. Often nothing else keeps wide ones
// in memory.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/ir/analysis/statement_uses.h"
#include "core/ir/operation_cost.h"
#include "core/ir/same_body.h"
#include "core/layout/factor_copies.h"
#include "core/layout/layout.h"
#include "core/passes/normalize/substitution.h"

namespace tile {
namespace {

bool compares(Op op) {
  return op == Op::gt || op == Op::ge || op == Op::lt || op == Op::le || op == Op::eq ||
         op == Op::ne;
}

class StoredComparisons {
 public:
  explicit StoredComparisons(BoundProgram& program) : program_(program), copies_(program) {}

  void run() {
    const std::set<TensorId> seen = seen_outside(program_);
    std::vector<BoundStatement> all;
    for (BoundStatement& statement : program_.statements) {
      auto* c = std::get_if<Contraction>(&statement);
      if (c != nullptr) {
        for (Piece& piece : c->pieces) read_comparisons(piece);
      }
      if (c != nullptr && c->outputs.size() == 1 && !seen.contains(c->outputs[0])) {
        makers_[c->outputs[0]] = all.size();
      }
      all.push_back(std::move(statement));
    }
    // Behind the statements that make the elements.
    std::vector<BoundStatement> result;
    for (size_t i = 0; i < all.size(); ++i) {
      result.push_back(std::move(all[i]));
      for (auto& [at, made] : made_) {
        if (at == i) result.push_back(std::move(made));
      }
    }
    program_.statements = std::move(result);
  }

 private:
  // A comparison in a body, and what its value is made of.
  struct Comparison {
    NodeId node;
    std::set<size_t> loads;
  };
  struct Known {
    std::vector<TensorId> tensors;
    Body body;
    TensorId result;
  };

  void read_comparisons(Piece& piece) {
    size_t loads = piece.loads.size();
    for (NodeId id : piece.body.nodes.ids()) {
      std::optional<Comparison> c = comparison_at(piece, id);
      if (c && saves(piece, *c)) replace(piece, *c);
    }
    if (piece.loads.size() == loads) return;
    piece.body = tidied(piece.body);
    drop_unused_loads(piece);
  }

  // Of elements of tensors of one shape at one cell.
  std::optional<Comparison> comparison_at(const Piece& piece, NodeId id) const {
    const Node& n = piece.body[id];
    bool number = n.kind == NodeKind::operation && compares(n.op) &&
                  (piece.body[n.args[0]].kind == NodeKind::real ||
                   piece.body[n.args[1]].kind == NodeKind::real);
    if (!number) return std::nullopt;
    Comparison c{id, {}};
    std::vector<NodeId> open{id};
    double instructions = 0;
    while (!open.empty()) {
      const Node& at = piece.body[open.back()];
      open.pop_back();
      if (at.kind == NodeKind::load) c.loads.insert(at.slot);
      bool known = at.kind == NodeKind::operation || at.kind == NodeKind::real ||
                   (at.kind == NodeKind::load && at.args.empty());
      if (at.kind == NodeKind::operation) instructions += cost_of(at.op).instructions;
      if (!known || instructions > kCheap) return std::nullopt;
      open.insert(open.end(), at.args.begin(), at.args.end());
    }
    return !c.loads.empty() && same_cells(piece, c.loads) ? std::optional(c) : std::nullopt;
  }
  bool same_cells(const Piece& piece, const std::set<size_t>& loads) const {
    const Access& first = piece.loads[*loads.begin()];
    return std::all_of(loads.begin(), loads.end(), [&](size_t slot) {
      const Access& a = piece.loads[slot];
      if (shape(a.tensor) != shape(first.tensor)) return false;
      for (size_t d = 0; d < a.index.size(); ++d) {
        const Index &mine = a.index[d], &theirs = first.index[d];
        bool same = mine.affine == theirs.affine && mine.value < 0 && theirs.value < 0 &&
                    mine.boundary == Boundary::in_range && theirs.boundary == Boundary::in_range;
        if (!same) return false;
      }
      return true;
    });
  }
  const Shape& shape(TensorId id) const { return program_.tensors[id].shape; }

  // Bytes of temporaries that the statement reads for the comparison alone.
  bool saves(const Piece& piece, const Comparison& c) const {
    std::vector<bool> inside(piece.body.nodes.size(), false);
    std::vector<NodeId> open{c.node};
    while (!open.empty()) {
      NodeId id = open.back();
      open.pop_back();
      inside[id.index()] = true;
      const Node& n = piece.body[id];
      open.insert(open.end(), n.args.begin(), n.args.end());
    }
    std::set<size_t> other;  // loads that something else reads
    for (NodeId id : piece.body.nodes.ids()) {
      const Node& n = piece.body[id];
      if (n.region) return false;
      for (NodeId a : n.args) {
        bool load = piece.body[a].kind == NodeKind::load;
        if (load && !inside[id.index()]) other.insert(piece.body[a].slot);
      }
    }
    for (NodeId r : piece.body.results) {
      if (piece.body[r].kind == NodeKind::load) other.insert(piece.body[r].slot);
    }
    size_t bytes = 0;
    for (size_t slot : c.loads) {
      const BoundTensor& t = program_.tensors[piece.loads[slot].tensor];
      bool counts = !other.contains(slot) && makers_.contains(piece.loads[slot].tensor);
      if (counts && element_count(t.shape) > kFewElements) bytes += byte_size(t.type);
      if (!makers_.contains(piece.loads[slot].tensor) && t.role != TensorRole::input) {
        return false;  // set by what is no plain statement, or a result
      }
    }
    return bytes > byte_size(DType::bool_);
  }

  void replace(Piece& piece, const Comparison& c) {
    Access access = piece.loads[*c.loads.begin()];
    access.tensor = stored(piece, c);
    Node load;
    load.kind = NodeKind::load;
    load.type = DType::bool_;
    load.slot = piece.loads.size();
    load.span = piece.body[c.node].span;
    piece.loads.push_back(std::move(access));
    piece.body.nodes[c.node] = std::move(load);
  }

  TensorId stored(const Piece& piece, const Comparison& c) {
    Known made;
    std::map<size_t, size_t> slots;
    for (size_t slot : c.loads) {
      slots[slot] = made.tensors.size();
      made.tensors.push_back(piece.loads[slot].tensor);
    }
    made.body.results = {graft(made.body, piece.body, c.node, [&](Body& to, const Node& n) {
      return n.kind == NodeKind::load ? to.load(slots.at(n.slot), n.type) : NodeId();
    })};
    for (const Known& k : known_) {
      if (k.tensors == made.tensors && same_body(k.body, made.body)) return k.result;
    }
    const Shape cells = shape(made.tensors[0]);
    made.result =
        copies_.add(program_.tensors[made.tensors[0]].name + "_compared", DType::bool_, cells);
    Access from;
    std::vector<std::string> names;
    for (size_t d = 0; d < cells.size(); ++d) {
      from.index.push_back({iterator_affine(d)});
      names.push_back("i" + std::to_string(d));
    }
    from.tensor = made.tensors[0];
    Contraction statement = copies_.copied(made.result, from, std::move(names));
    statement.accumulator = DType::bool_;
    Piece& own = statement.pieces[0];
    own.body = made.body;
    own.loads.clear();
    size_t behind = 0;
    for (TensorId id : made.tensors) {
      from.tensor = id;
      own.loads.push_back(from);
      auto maker = makers_.find(id);
      if (maker != makers_.end()) behind = std::max(behind, maker->second);
    }
    made_.emplace_back(behind, std::move(statement));
    known_.push_back(std::move(made));
    return known_.back().result;
  }

  static constexpr int64_t kFewElements = 4096;  // not worth a tensor
  static constexpr double kCheap = 8;            // instructions of a comparison and its value

  BoundProgram& program_;
  FactorCopies copies_;
  std::map<TensorId, size_t> makers_;  // of temporaries: places of statements
  std::vector<Known> known_;
  std::vector<std::pair<size_t, Contraction>> made_;  // with their places
};

}  // namespace

void store_comparisons(BoundProgram& program, const Target& target) {
  if (is_gpu(target)) StoredComparisons(program).run();
}

}  // namespace tile
