// Factors and divisors that all terms of a cell's sum end with are applied to the sum: a sum over
// rows of x * scale[column] / variance[column] / count becomes a sum of x, and a product and two
// quotients for each column. Gradients of norms and of batch statistics have such terms, and a GPU
// would divide for every element.
//
// Nothing leaves the range of its type that would not have: terms are scaled by a power of two that
// is at most one over their number, so that no partial sum is beyond the largest of them; what is
// applied to the sum comes in the order in which it was applied to the terms, and each step's
// result is at most the largest that it had; the power is taken back at the end. Terms below that
// power's share of the normal numbers (2^-110 for 65,536 of f32) lose bits.
//
// A division by zero and a product with an infinity make of each term an infinity of its own sign,
// or NaN of zero, which the sum of the terms does not tell. Where a cell has such a factor, its
// terms are scaled by infinity instead, which makes the same of them.
//
// Sums of products of rows and columns stay as they are: their factors are for tensor cores and
// streams to find.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/layout/factor_copies.h"
#include "core/layout/layout.h"

namespace tile {
namespace {

constexpr int64_t kLeastTerms = 16;  // of a cell; fewer are not worth a tensor

class SumFactors {
 public:
  explicit SumFactors(BoundProgram& program) : copies_(program) {}

  // The statement, and behind it what its sum is multiplied with and divided by.
  void factor(BoundStatement statement, std::vector<BoundStatement>& all) {
    auto* c = std::get_if<Contraction>(&statement);
    std::optional<Run> run = c == nullptr || !is_candidate(*c) ? std::nullopt : run_of(*c);
    std::optional<Contraction> after = run ? std::optional(divided(*c, *run)) : std::nullopt;
    all.push_back(std::move(statement));
    if (after) all.push_back(std::move(*after));
  }

 private:
  struct Factor {
    NodeId value;
    bool divides = false;
  };
  // The products and quotients at the end of a term whose second operands all terms of a cell have.
  struct Run {
    NodeId value;                 // that the first of them takes
    std::vector<Factor> factors;  // in order
  };

  static int64_t terms_of(const Piece& piece) {
    int64_t terms = 1;
    for (size_t u = piece.parallel_dims; u < piece.box.size(); ++u) terms *= piece.box[u];
    return terms;
  }

  bool is_candidate(const Contraction& c) const {
    bool sum = is_plain_contraction(c) && c.aggregation == Aggregation::sum &&
               (c.accumulator == DType::f32 || c.accumulator == DType::f64);
    if (!sum || c.pieces[0].body.results.size() != 1) return false;
    // A cell without a point is zero, whatever its factors are.
    const Piece& piece = c.pieces[0];
    int64_t cells = 1;
    for (size_t u = 0; u < piece.parallel_dims; ++u) cells *= piece.box[u];
    bool all =
        piece.constraints.empty() && cells == element_count(copies_.tensor(c.outputs[0]).shape);
    return all && terms_of(piece) >= kLeastTerms && !is_matrix_product(piece);
  }

  // Of rows and columns that two of its loads have alone.
  static bool is_matrix_product(const Piece& piece) {
    for (const Access& a : piece.loads) {
      for (const Access& b : piece.loads) {
        ProductExtents of = product_extents(piece, a, b);
        if (std::min({of.rows, of.columns, of.terms}) > 1) return true;
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

  // Nothing where no element is divided by another: products alone cost a sum little.
  static std::optional<Run> run_of(const Contraction& c) {
    const Body& body = c.pieces[0].body;
    std::vector<bool> differs = differing(c.pieces[0]);
    Run run{body.results[0], {}};
    bool divides = false;
    for (;;) {
      const Node& n = body[run.value];
      bool fits = n.kind == NodeKind::operation && n.type == c.accumulator &&
                  (n.op == Op::mul || n.op == Op::div) && differs[n.args[0].index()] &&
                  !differs[n.args[1].index()];
      if (!fits) break;
      run.factors.push_back({n.args[1], n.op == Op::div});
      divides = divides || (n.op == Op::div && body[n.args[1]].kind != NodeKind::real);
      run.value = n.args[0];
    }
    std::reverse(run.factors.begin(), run.factors.end());
    return divides ? std::optional(std::move(run)) : std::nullopt;
  }

  // Leaves the sum of what the run takes, scaled, and returns what is done with it.
  Contraction divided(Contraction& c, const Run& run) {
    const Piece before = c.pieces[0];
    const TensorId out = c.outputs[0];
    const int power = static_cast<int>(std::ceil(std::log2(static_cast<double>(terms_of(before)))));
    TensorId sums =
        copies_.add(copies_.tensor(out).name + "_terms", c.accumulator, copies_.tensor(out).shape);
    Contraction after = c;
    Piece& piece = c.pieces[0];
    Body body;
    NodeId term = copied(body, before.body, run.value);
    NodeId scale = scale_of(body, before.body, run, std::ldexp(1, -power), c.accumulator);
    body.results = {body.operation(Op::mul, {term, scale}, c.accumulator)};
    piece.body = tidied(body);
    drop_unread(piece.body, piece.loads);
    c.outputs[0] = piece.stores[0].tensor = sums;

    after.aggregation = Aggregation::assign;
    Piece& cells = after.pieces[0];
    cells.iterators.resize(before.parallel_dims);
    cells.box.resize(before.parallel_dims);
    Access sum = before.stores[0];
    sum.tensor = sums;
    cells.loads.push_back(sum);
    Body made;
    NodeId value = made.load(cells.loads.size() - 1, c.accumulator);
    for (const Factor& f : run.factors) {
      Op op = f.divides ? Op::div : Op::mul;
      value = made.operation(op, {value, copied(made, before.body, f.value)}, c.accumulator);
    }
    scale = made.real(std::ldexp(1, power), c.accumulator);
    made.results = {made.operation(Op::mul, {value, scale}, c.accumulator)};
    cells.body = tidied(made);
    drop_unread(cells.body, cells.loads);
    for (std::vector<Access>* accesses : {&cells.loads, &cells.stores}) {
      for (Access& a : *accesses) keep_iterators(a, before.parallel_dims);
    }
    return after;
  }

  // The power, or infinity where a factor makes infinities of terms.
  static NodeId scale_of(Body& into, const Body& from, const Run& run, double power, DType type) {
    NodeId scale = into.real(power, type);
    const NodeId infinity = into.real(std::numeric_limits<double>::infinity(), type);
    for (const Factor& f : run.factors) {
      const Node& number = from[f.value];
      bool plain = number.kind == NodeKind::real && std::isfinite(number.real) && number.real != 0;
      if (plain) continue;
      scale = into.operation(Op::select, {is_singular(into, from, f), infinity, scale}, type);
    }
    return scale;
  }
  // Whether a divisor is zero, or a factor infinite; of a root its operand tells.
  static NodeId is_singular(Body& into, const Body& from, const Factor& f) {
    const Node& n = from[f.value];
    bool root = n.kind == NodeKind::operation && n.op == (f.divides ? Op::sqrt : Op::rsqrt) &&
                from[n.args[0]].type == n.type;
    NodeId value = copied(into, from, root ? n.args[0] : f.value);
    if (!root && !f.divides) return into.operation(Op::isinf, {value}, DType::bool_);
    NodeId zero = into.real(0, into[value].type);
    return into.operation(Op::eq, {value, zero}, DType::bool_);
  }
  static NodeId copied(Body& into, const Body& from, NodeId value) {
    return graft(into, from, value, [](Body&, const Node&) { return NodeId(); });
  }

  FactorCopies copies_;
};

}  // namespace

void factor_sums(BoundProgram& program, const Target& target) {
  if (!is_gpu(target)) return;
  std::vector<BoundStatement> all, before = std::move(program.statements);
  SumFactors sums(program);
  for (BoundStatement& statement : before) sums.factor(std::move(statement), all);
  program.statements = std::move(all);
}

}  // namespace tile
