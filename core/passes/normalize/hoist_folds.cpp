#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/ir/operation_cost.h"
#include "core/passes/normalize/fold_region.h"
#include "core/passes/normalize/normalize.h"

namespace tile {
namespace {

constexpr size_t kMostCaptured = 24;  // nodes computed again in each iteration

bool has_folds(const Body& body) {
  return std::any_of(body.nodes.begin(), body.nodes.end(),
                     [](const Node& n) { return n.kind == NodeKind::fold; });
}

// A loop of constant bounds whose iterations combine in any order.
bool is_reduction(const Body& body, const Node& node) {
  if (node.kind != NodeKind::fold || !aggregation_of(node.op)) return false;
  const Node &begin = body[node.args[0]], &end = body[node.args[1]];
  return begin.kind == NodeKind::integer && end.kind == NodeKind::integer &&
         begin.integer < end.integer;
}

// Whether what the loop captures is cheap to compute once more for each iteration.
bool captures_little(const Body& body, const Node& fold) {
  Body captured;
  Leaf keep = [](Body&, const Node&) { return NodeId{-1}; };
  for (size_t a = fold.slot + 2; a < fold.args.size(); ++a) {
    captured.results.push_back(graft(captured, body, fold.args[a], keep));
  }
  captured = tidied(captured);
  bool dear = std::any_of(captured.nodes.begin(), captured.nodes.end(), [](const Node& n) {
    return n.kind == NodeKind::operation && is_dear(n.op);
  });
  return !dear && !has_folds(captured) && captured.nodes.size() <= kMostCaptured;
}

// Results of one loop become reductions of their own; what they share is then computed for each.
double cost(const Body& body) {
  double sum = 0;
  for (const Node& n : body.nodes) {
    sum += n.kind == NodeKind::operation ? cycles_in_turn(n.op) : 1;
  }
  return sum;
}
bool shares_little(const Node& fold) {
  const Body& region = *fold.region;
  double apart = 0;
  for (NodeId result : region.results) {
    Body one;
    one.nodes = region.nodes;
    one.results = {result};
    apart += cost(tidied(one));
  }
  return apart <= 2 * cost(tidied(region));
}

bool hoistable(const Body& body, const Node& node) {
  return is_reduction(body, node) && captures_little(body, node) && shares_little(node);
}

// The region's result c where the counter is iterator `counter`, inside a new body.
NodeId term(Body& to, const Body& body, const Node& fold, size_t c, int counter) {
  std::vector<NodeId> given =
      region_arguments(to, body, fold, to.index(counter, DType::i64, fold.span));
  return region_value(to, *fold.region, fold.region->results[c], given);
}

std::string fresh_name(const std::set<std::string>& taken, const std::string& base) {
  std::string name = base;
  for (int n = 1; taken.contains(name); ++n) name = base + std::to_string(n);
  return name;
}

int add_counter(Piece& piece, const Body& body, const Node& fold) {
  auto counter = static_cast<int>(piece.iterators.size());
  std::set<std::string> taken(piece.iterators.begin(), piece.iterators.end());
  piece.iterators.push_back(fresh_name(taken, "k"));
  Constraint bounds;
  bounds.form = iterator_affine(static_cast<size_t>(counter));
  bounds.lo = body[fold.args[0]].integer;
  bounds.hi = body[fold.args[1]].integer;
  bounds.integral = true;
  piece.constraints.push_back(std::move(bounds));
  return counter;
}

class Hoister {
 public:
  explicit Hoister(BoundProgram& program) : program_(program) {
    for (const BoundTensor& t : program.tensors) names_.insert(t.name);
  }

  void run() {
    std::vector<BoundStatement> statements;
    for (BoundStatement& statement : program_.statements) {
      if (auto* c = std::get_if<Contraction>(&statement)) {
        while (hoist_one(*c, statements)) {
        }
      }
      statements.push_back(std::move(statement));
    }
    program_.statements = std::move(statements);
  }

 private:
  bool hoist_one(Contraction& c, std::vector<BoundStatement>& before) {
    if (c.pieces.size() != 1 || c.normalized || c.aggregation != Aggregation::assign) return false;
    const Body& body = c.pieces[0].body;
    std::optional<Shape> cells = cells_of(c);
    if (!cells) return false;
    for (NodeId n : body.nodes.ids()) {
      if (!hoistable(body, body.nodes[n])) continue;
      hoist(c, n, *cells, before);
      return true;
    }
    return false;
  }

  // The range of each iterator, where the statement stores at the iterators themselves.
  std::optional<Shape> cells_of(const Contraction& c) const {
    const Piece& piece = c.pieces[0];
    const Shape& shape = program_.tensors[c.outputs[0]].shape;
    Shape cells(piece.iterators.size(), -1);
    for (size_t d = 0; d < shape.size(); ++d) {
      for (size_t u = 0; u < cells.size(); ++u) {
        if (piece.stores[0].index[d].affine == iterator_affine(u)) cells[u] = shape[d];
      }
    }
    bool all = std::all_of(cells.begin(), cells.end(), [](int64_t n) { return n >= 0; });
    return all ? std::optional(cells) : std::nullopt;
  }

  void hoist(Contraction& c, NodeId at, const Shape& cells, std::vector<BoundStatement>& before) {
    Piece& piece = c.pieces[0];
    const Node fold = piece.body[at];
    size_t carried = fold.slot;
    std::vector<int> slots;
    for (size_t k = 0; k < carried; ++k) {
      DType type = piece.body[fold.args[k + 2]].type;
      BoundTensor sum;
      sum.name = fresh_name(names_, program_.tensors[c.outputs[0]].name + "_loop");
      sum.type = type;
      sum.shape = cells;
      names_.insert(sum.name);
      TensorId id = program_.tensors.add(std::move(sum));
      Access cell;
      cell.tensor = id;
      for (size_t u = 0; u < cells.size(); ++u) cell.index.push_back({iterator_affine(u)});
      before.emplace_back(reduction(c, fold, k, cell, type));
      merge_inner(std::get<Contraction>(before.back()));
      slots.push_back(static_cast<int>(piece.loads.size()));
      piece.loads.push_back(std::move(cell));
    }
    piece.body = epilogue(piece.body, at, slots);
  }

  static Contraction reduction(const Contraction& c, const Node& fold, size_t k, Access cell,
                               DType type) {
    Contraction made;
    made.outputs = {cell.tensor};
    made.aggregation = *aggregation_of(fold.op);
    made.accumulator = compute_type(type);
    made.span = c.span;
    Piece piece = c.pieces[0];
    piece.stores = {std::move(cell)};
    int counter = add_counter(piece, c.pieces[0].body, fold);
    Body body;
    NodeId root = term(body, c.pieces[0].body, fold, k, counter);
    body.results = {body.cast(root, made.accumulator)};
    piece.body = tidied(body);
    made.pieces = {std::move(piece)};
    return made;
  }

  // A reduction whose term is a reduction of the same kind from its neutral element is one over
  // both indices.
  static void merge_inner(Contraction& c) {
    Piece& piece = c.pieces[0];
    while (true) {
      const Body body = piece.body;
      const Node& root = body[body.results[0]];
      if (root.kind != NodeKind::component || body[root.args[0]].slot != 1) return;
      const Node& fold = body[root.args[0]];
      const Node& start = body[fold.args[2]];
      bool zero = start.kind == NodeKind::integer && start.integer == 0;
      bool one = start.kind == NodeKind::integer && start.integer == 1;
      zero = zero || (start.kind == NodeKind::real && start.real == 0);
      one = one || (start.kind == NodeKind::real && start.real == 1);
      bool neutral = (fold.op == Op::add && zero) || (fold.op == Op::mul && one);
      if (!neutral || aggregation_of(fold.op) != c.aggregation) return;
      if (!hoistable(body, fold)) return;
      int counter = add_counter(piece, body, fold);
      Body inner;
      inner.results = {term(inner, body, fold, 0, counter)};
      piece.body = tidied(inner);
    }
  }

  // The loop's results are its starts combined with what the reductions give.
  static Body epilogue(const Body& body, NodeId at, const std::vector<int>& slots) {
    const Node fold = body[at];
    return replace_components(body, fold, [&](Body& to, const Node& n, NodeId first) {
      DType wide = compute_type(n.type);
      NodeId load = to.load(slots[n.slot], n.type, n.span);
      NodeId term = to.cast(load, wide, n.span);
      NodeId start = to.cast(first, wide, n.span);
      return to.cast(to.operation(fold.op, {start, term}, wide, n.span), n.type, n.span);
    });
  }

  BoundProgram& program_;
  std::set<std::string> names_;
};

}  // namespace

void hoist_folds(BoundProgram& program, const Target&) { Hoister(program).run(); }

}  // namespace tile
