// Factors that all terms of a cell's sum have are taken out of it: a sum over rows of
// x * y * scale[column] / count becomes a sum of x * y, and one product and quotient for each
// column. Gradients of norms and of batch statistics have such factors, some of them roots and
// divisors, and a GPU would compute them for every element. Sums of products of rows and columns
// stay as they are: their factors are for tensor cores and streams to find.
#include <algorithm>
#include <vector>

#include "core/ir/analysis/accesses.h"
#include "core/layout/factor_copies.h"
#include "core/layout/layout.h"

namespace tile {
namespace {

class SumFactors {
 public:
  explicit SumFactors(BoundProgram& program) : program_(program), copies_(program) {}

  void run() {
    std::vector<BoundStatement> all;
    for (BoundStatement& statement : program_.statements) {
      auto* c = std::get_if<Contraction>(&statement);
      std::optional<Contraction> after = c == nullptr ? std::nullopt : factored(*c);
      all.push_back(std::move(statement));
      if (after) all.push_back(std::move(*after));
    }
    program_.statements = std::move(all);
  }

 private:
  struct Factor {
    NodeId value;
    bool divides = false;
  };

  // Leaves the sum of what differs from term to term, and returns what is done with it.
  std::optional<Contraction> factored(Contraction& c) {
    bool sum = c.normalized && c.pieces.size() == 1 && c.outputs.size() == 1 && !c.fill &&
               c.aggregation == Aggregation::sum && is_float(c.accumulator);
    if (!sum) return std::nullopt;
    Piece& piece = c.pieces[0];
    // A cell without a point is zero, whatever its factors are.
    if (piece.parallel_dims == piece.box.size() || !piece.constraints.empty()) return std::nullopt;
    if (piece.body.results.size() != 1) return std::nullopt;
    std::vector<Factor> factors;
    collect(piece.body, piece.body.results[0], c.accumulator, false, factors);
    std::vector<bool> differs = differing(piece);
    auto common = std::stable_partition(factors.begin(), factors.end(),
                                        [&](const Factor& f) { return differs[f.value.index()]; });
    bool some = common != factors.begin() && common != factors.end();
    if (!some || factors[0].divides || is_matrix_product(piece)) return std::nullopt;
    return divide(c, {factors.begin(), common}, {common, factors.end()});
  }

  static void collect(const Body& body, NodeId id, DType type, bool divides,
                      std::vector<Factor>& list) {
    const Node& n = body[id];
    bool product =
        n.kind == NodeKind::operation && n.type == type && (n.op == Op::mul || n.op == Op::div);
    if (!product) return list.push_back({id, divides});
    collect(body, n.args[0], type, divides, list);
    collect(body, n.args[1], type, divides != (n.op == Op::div), list);
  }

  // By node: whether its value changes with a reduction's iterator.
  static std::vector<bool> differing(const Piece& piece) {
    std::vector<bool> list;
    auto reduced = [&](size_t u) { return u >= piece.parallel_dims && piece.box[u] > 1; };
    for (const Node& n : piece.body.nodes) {
      bool differs = n.kind == NodeKind::fold || (n.kind == NodeKind::index && reduced(n.slot)) ||
                     (n.kind == NodeKind::size);
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

  static NodeId product(Body& body, NodeId first, const std::vector<NodeId>& values,
                        const std::vector<Factor>& factors, DType type) {
    for (size_t i = 0; i < factors.size(); ++i) {
      Op op = factors[i].divides ? Op::div : Op::mul;
      first = first.valid() ? body.operation(op, {first, values[i]}, type) : values[i];
    }
    return first;
  }
  // The values of the factors in a body of their own, which reads what they do.
  static std::vector<NodeId> copied(Body& into, const Body& from,
                                    const std::vector<Factor>& factors) {
    std::vector<NodeId> list;
    for (const Factor& f : factors) {
      list.push_back(graft(into, from, f.value, [](Body&, const Node&) { return NodeId(); }));
    }
    return list;
  }

  Contraction divide(Contraction& c, const std::vector<Factor>& terms,
                     const std::vector<Factor>& common) {
    const Piece before = c.pieces[0];
    TensorId out = c.outputs[0];
    TensorId sums = copies_.add(program_.tensors[out].name + "_terms", c.accumulator,
                                program_.tensors[out].shape);
    Piece& piece = c.pieces[0];
    Body body;
    body.results = {
        product(body, NodeId(), copied(body, before.body, terms), terms, c.accumulator)};
    piece.body = std::move(body);
    drop_unread(piece.body, piece.loads);
    c.outputs[0] = piece.stores[0].tensor = sums;

    Contraction after = c;
    after.aggregation = Aggregation::assign;
    after.outputs[0] = out;
    Piece& cells = after.pieces[0];
    cells = before;
    cells.iterators.resize(before.parallel_dims);
    cells.box.resize(before.parallel_dims);
    Body made;
    std::vector<NodeId> values = copied(made, before.body, common);
    Access sum = before.stores[0];
    sum.tensor = sums;
    cells.loads.push_back(sum);
    NodeId first = made.load(cells.loads.size() - 1, c.accumulator);
    made.results = {product(made, first, values, common, c.accumulator)};
    cells.body = std::move(made);
    drop_unread(cells.body, cells.loads);
    auto shorten = [&](std::vector<Access>& accesses) {
      for (Access& a : accesses) {
        for (Index& index : a.index) {
          auto& list = index.affine.coefficients;
          if (list.size() > before.parallel_dims) list.resize(before.parallel_dims);
        }
      }
    };
    shorten(cells.loads);
    shorten(cells.stores);
    return after;
  }

  BoundProgram& program_;
  FactorCopies copies_;
};

}  // namespace

void factor_sums(BoundProgram& program, const Target& target) {
  if (is_gpu(target)) SumFactors(program).run();
}

}  // namespace tile
