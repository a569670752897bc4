// Factors and divisors that all terms of a cell's sum have, one behind the other, are combined into
// one number of the cell: a term x * scale[column] / variance[column] / count becomes x *
// f[column]. Gradients of norms and of batch statistics have such terms, and a GPU would divide for
// every element. The number stays in the term, since sums without it may leave the range of their
// type (a mean of large elements). Sums of products of rows and columns stay as they are: their
// factors are for tensor cores and streams to find.
#include <algorithm>
#include <map>
#include <vector>

#include "core/ir/analysis/accesses.h"
#include "core/layout/factor_copies.h"
#include "core/layout/layout.h"

namespace tile {
namespace {

constexpr int64_t kLeastTerms = 16;  // of a cell; fewer are not worth a tensor

class CombinedFactors {
 public:
  explicit CombinedFactors(BoundProgram& program) : copies_(program) {}

  // Statements that make numbers, and the statement behind them.
  void combine(BoundStatement statement, std::vector<BoundStatement>& all) {
    auto* c = std::get_if<Contraction>(&statement);
    if (c != nullptr && is_candidate(*c)) combine(*c, all);
    all.push_back(std::move(statement));
  }

 private:
  // A run of products and quotients whose second operands all terms of a cell have.
  struct Run {
    NodeId value;                                   // that the first of them takes
    std::vector<std::pair<NodeId, bool>> operands;  // and whether they divide, in order
  };

  static bool is_candidate(const Contraction& c) {
    bool sum = c.normalized && c.pieces.size() == 1 && c.outputs.size() == 1 &&
               c.aggregation == Aggregation::sum && is_float(c.accumulator);
    if (!sum || c.pieces[0].body.results.size() != 1) return false;
    const Piece& piece = c.pieces[0];
    int64_t terms = 1;
    for (size_t u = piece.parallel_dims; u < piece.box.size(); ++u) terms *= piece.box[u];
    return terms >= kLeastTerms && !is_matrix_product(piece);
  }

  // Two loads of which each moves with a parallel dimension that the other stays at.
  static bool is_matrix_product(const Piece& piece) {
    for (const Access& a : piece.loads) {
      for (const Access& b : piece.loads) {
        bool rows = false, columns = false, terms = false;
        for (size_t u = 0; u < piece.box.size(); ++u) {
          if (piece.box[u] == 1) continue;
          bool in_a = moves_with(a, u), in_b = moves_with(b, u);
          if (u >= piece.parallel_dims) {
            terms = terms || (in_a && in_b);
          } else {
            rows = rows || (in_a && !in_b);
            columns = columns || (in_b && !in_a);
          }
        }
        if (rows && columns && terms) return true;
      }
    }
    return false;
  }

  // By node: whether its value changes with a reduction's iterator.
  static std::vector<bool> differing(const Piece& piece) {
    std::vector<bool> list;
    auto reduced = [&](size_t u) { return u >= piece.parallel_dims && piece.box[u] > 1; };
    for (const Node& n : piece.body.nodes) {
      bool differs = n.kind == NodeKind::fold || n.kind == NodeKind::size ||
                     (n.kind == NodeKind::index && reduced(n.slot));
      if (n.kind == NodeKind::load) {
        for (size_t u = 0; u < piece.box.size(); ++u) {
          differs = differs || (reduced(u) && moves_with(piece.loads[n.slot], u));
        }
      }
      for (NodeId a : n.args) differs = differs || list[a.index()];
      list.push_back(differs);
    }
    return list;
  }

  static std::optional<Run> run_of(const Body& body, NodeId id, DType type,
                                   const std::vector<bool>& differs) {
    Run run{id, {}};
    for (;;) {
      const Node& n = body[run.value];
      bool fits = n.kind == NodeKind::operation && n.type == type &&
                  (n.op == Op::mul || n.op == Op::div) && differs[n.args[0].index()] &&
                  !differs[n.args[1].index()];
      if (!fits) break;
      run.operands.emplace_back(n.args[1], n.op == Op::div);
      run.value = n.args[0];
    }
    std::reverse(run.operands.begin(), run.operands.end());
    bool divides = false, reads = false;
    for (auto [operand, divisor] : run.operands) {
      bool literal = body[operand].kind == NodeKind::real;
      divides = divides || (divisor && !literal);
      reads = reads || !literal;
    }
    return divides && reads ? std::optional(std::move(run)) : std::nullopt;
  }

  void combine(Contraction& c, std::vector<BoundStatement>& all) {
    Piece& piece = c.pieces[0];
    const std::vector<bool> differs = differing(piece);
    const Body before = piece.body;
    std::vector<bool> inside(before.nodes.size(), false);  // of a run that ends later
    for (size_t i = before.nodes.size(); i-- > 0;) {
      if (inside[i]) continue;
      std::optional<Run> run = run_of(before, NodeId(i), c.accumulator, differs);
      if (!run) continue;
      for (NodeId at(i); at != run->value; at = before[at].args[0]) inside[at.index()] = true;
      Access number = stored(c, before, *run, all);
      piece.loads.push_back(std::move(number));
      Node load;
      load.kind = NodeKind::load;
      load.type = c.accumulator;
      load.slot = piece.loads.size() - 1;
      replaced_[NodeId(i)] = {run->value, load};
    }
    if (replaced_.empty()) return;
    piece.body = with_numbers(before, c.accumulator);
    replaced_.clear();
    piece.body = tidied(piece.body);
    drop_unread(piece.body, piece.loads);
  }

  // The body where runs are products with their numbers.
  Body with_numbers(const Body& before, DType type) const {
    Body body;
    std::vector<NodeId> at;
    for (NodeId id : before.nodes.ids()) {
      auto run = replaced_.find(id);
      if (run != replaced_.end()) {
        NodeId number = body.add(run->second.second);
        NodeId value = at[run->second.first.index()];
        at.push_back(body.operation(Op::mul, {value, number}, type, before[id].span));
        continue;
      }
      Node n = before[id];
      for (NodeId& a : n.args) a = at[a.index()];
      at.push_back(body.add(std::move(n)));
    }
    for (NodeId r : before.results) body.results.push_back(at[r.index()]);
    return body;
  }

  // The access to a tensor with the run's number for each cell of the sum.
  Access stored(const Contraction& c, const Body& before, const Run& run,
                std::vector<BoundStatement>& all) {
    const Piece& sum = c.pieces[0];
    Contraction made = c;
    made.aggregation = Aggregation::assign;
    made.fill.reset();
    Piece& cells = made.pieces[0];
    cells.constraints.clear();
    cells.iterators.resize(sum.parallel_dims);
    cells.box.resize(sum.parallel_dims);
    Shape shape(cells.box.begin(), cells.box.end());
    Access access;
    access.tensor =
        copies_.add(copies_.tensor(c.outputs[0]).name + "_factor", c.accumulator, shape);
    for (size_t u = 0; u < sum.parallel_dims; ++u) access.index.push_back({iterator_affine(u)});
    made.outputs[0] = access.tensor;
    cells.stores = {access};
    Body body;
    NodeId value;
    for (auto [operand, divides] : run.operands) {
      NodeId own = graft(body, before, operand, [](Body&, const Node&) { return NodeId(); });
      if (!value.valid() && divides) value = body.real(1, c.accumulator);
      Op op = divides ? Op::div : Op::mul;
      value = value.valid() ? body.operation(op, {value, own}, c.accumulator) : own;
    }
    body.results = {value};
    cells.body = std::move(body);
    drop_unread(cells.body, cells.loads);
    for (Access& a : cells.loads) {
      for (Index& index : a.index) {
        auto& list = index.affine.coefficients;
        if (list.size() > sum.parallel_dims) list.resize(sum.parallel_dims);
      }
    }
    all.push_back(std::move(made));
    return access;
  }

  FactorCopies copies_;
  std::map<NodeId, std::pair<NodeId, Node>> replaced_;  // by a run's last node
};

}  // namespace

void combine_factors(BoundProgram& program, const Target& target) {
  if (!is_gpu(target)) return;
  std::vector<BoundStatement> all, before = std::move(program.statements);
  CombinedFactors factors(program);
  for (BoundStatement& statement : before) factors.combine(std::move(statement), all);
  program.statements = std::move(all);
}

}  // namespace tile
