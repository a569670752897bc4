// O[i, d] = +(E[i, j] * V[j, d] / Z[i]) divides every term, and is no product of matrices: P = E /
// Z is made cell by cell, and O is +(P * V). Attention whose divisor stands inside the sum is then
// that whose weights are normalized before it, which streams and tensor cores take.
//
// A factor of a term that has only iterators of one of its two matrices is multiplied or divided
// into that matrix, the smaller one where it has those of both. The product of a term is rounded in
// another order, as sums are.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/fresh_names.h"
#include "core/ir/analysis/plain_contraction.h"
#include "core/passes/normalize/substitution.h"
#include "core/passes/optimize/optimize.h"
#include "core/support/choices.h"

namespace tile {
namespace {

// Rows, columns and terms of a product that is worth a tensor: each cell of a matrix is a factor of
// so many terms.
constexpr int64_t kLeastExtent = 16;

// One of the values whose product a term is.
struct Factor {
  NodeId value;
  bool divides = false;
  std::vector<bool> moves;  // by iterator
  bool anywhere = true;     // it has a value at all values of its iterators
};

class SeparatedFactors {
 public:
  explicit SeparatedFactors(BoundProgram& program) : program_(program), names_(program.tensors) {}

  void run() {
    std::vector<BoundStatement> all;
    for (BoundStatement& statement : program_.statements) {
      if (auto* c = std::get_if<Contraction>(&statement)) separate(*c, all);
      all.push_back(std::move(statement));
    }
    program_.statements = std::move(all);
  }

 private:
  // The two matrices, and for each the factors that go into it.
  struct Term {
    size_t matrix[2];
    std::vector<size_t> into[2];
  };

  void separate(Contraction& c, std::vector<BoundStatement>& made) {
    bool sum = is_plain_contraction(c) && c.aggregation == Aggregation::sum &&
               is_float(c.accumulator) && c.pieces[0].body.results.size() == 1;
    if (!sum) return;
    Piece& piece = c.pieces[0];
    std::optional<std::vector<Factor>> factors = factors_of(piece, c.accumulator);
    std::optional<Term> term = factors ? term_of(piece, *factors, c.accumulator) : std::nullopt;
    if (!term) return;
    Body body;
    NodeId product;
    for (size_t side : {0, 1}) {
      NodeId value = (*factors)[term->matrix[side]].value;
      if (!term->into[side].empty()) {
        Access& load = piece.loads[piece.body[value].slot];
        Contraction cells = multiplied(c, piece, *factors, *term, side);
        load.tensor = cells.outputs[0];
        made.emplace_back(std::move(cells));
      }
      NodeId copy = graft(body, piece.body, value, [](Body&, const Node&) { return NodeId(); });
      product = side == 0 ? copy : body.operation(Op::mul, {product, copy}, c.accumulator, c.span);
    }
    body.results = {product};
    piece.body = tidied(body);
    drop_unread(piece.body, piece.loads);
  }

  // Nothing where the term is no product of three values or more.
  std::optional<std::vector<Factor>> factors_of(const Piece& piece, DType type) const {
    IdVector<NodeId, std::vector<bool>> moves;
    IdVector<NodeId, bool> anywhere;
    for (const Node& n : piece.body.nodes) {
      bool plain = n.kind != NodeKind::fold && n.kind != NodeKind::size;
      if (!plain || (n.kind == NodeKind::load && !n.args.empty())) return std::nullopt;
      std::vector<bool> moved(piece.box.size());
      for (size_t u = 0; u < moved.size(); ++u) {
        if (n.kind == NodeKind::index) moved[u] = n.slot == u;
        if (n.kind == NodeKind::load) moved[u] = may_move_with(piece.loads[n.slot], u);
        for (NodeId a : n.args) moved[u] = moved[u] || moves[a][u];
      }
      moves.push_back(std::move(moved));
      anywhere.push_back(
          (n.kind != NodeKind::load || is_within(piece, piece.loads[n.slot])) &&
          std::all_of(n.args.begin(), n.args.end(), [&](NodeId a) { return anywhere[a]; }));
    }
    std::vector<Factor> factors, open{{piece.body.results[0], false, {}, true}};
    while (!open.empty()) {  // from the left
      Factor f = open.back();
      open.pop_back();
      const Node& n = piece.body[f.value];
      bool splits = n.kind == NodeKind::operation && n.type == type && !f.divides &&
                    (n.op == Op::mul || n.op == Op::div);
      if (!splits) {
        f.moves = moves[f.value];
        f.anywhere = anywhere[f.value];
        factors.push_back(std::move(f));
        continue;
      }
      open.push_back({n.args[1], n.op == Op::div, {}, true});
      open.push_back({n.args[0], false, {}, true});
    }
    return factors.size() > 2 ? std::optional(std::move(factors)) : std::nullopt;
  }

  // No value of an iterator is outside of the tensor, whatever the piece's conditions are.
  bool is_within(const Piece& piece, const Access& a) const {
    const Shape& shape = program_.tensors[a.tensor].shape;
    for (size_t d = 0; d < a.index.size(); ++d) {
      IteratorId u = is_plain_index(a.index[d]) ? sole_iterator(a.index[d], piece) : IteratorId();
      bool whole = u.valid() ? piece.box[u] <= shape[d] : is_constant_index(a.index[d]);
      if (!whole) return false;
    }
    return true;
  }

  // The element of a tensor of that type whose cells all stand at iterators of their own.
  bool is_matrix(const Piece& piece, const Factor& f, DType type) const {
    const Node& n = piece.body[f.value];
    if (f.divides || n.kind != NodeKind::load || n.type != type || !n.args.empty()) return false;
    const Access& a = piece.loads[n.slot];
    const BoundTensor& t = program_.tensors[a.tensor];
    if (t.view_of) return false;
    std::vector<bool> seen(piece.box.size());
    for (size_t d = 0; d < a.index.size(); ++d) {
      IteratorId u = is_plain_index(a.index[d]) ? sole_iterator(a.index[d], piece) : IteratorId();
      bool one = t.shape[d] == 1 && is_constant_index(a.index[d]);
      if (one) continue;
      if (!u.valid() || seen[u.index()] || piece.box[u] != t.shape[d]) return false;
      seen[u.index()] = true;
    }
    return true;
  }

  static bool within(const Factor& f, const Factor& matrix) {
    for (size_t u = 0; u < f.moves.size(); ++u) {
      if (f.moves[u] && !matrix.moves[u]) return false;
    }
    return true;
  }
  static bool is_constant(const Factor& f) {
    return std::none_of(f.moves.begin(), f.moves.end(), [](bool moves) { return moves; });
  }
  // Of rows, columns and terms the fewest.
  static int64_t least_extent(const Piece& piece, const Factor& a, const Factor& b) {
    int64_t rows = 1, columns = 1, terms = 1;
    for (size_t u = 0; u < piece.box.size(); ++u) {
      bool reduced = u >= piece.parallel_dims;
      if (a.moves[u] && b.moves[u] && reduced) terms *= piece.box[u];
      if (a.moves[u] && !b.moves[u]) rows *= piece.box[u];
      if (!a.moves[u] && b.moves[u]) columns *= piece.box[u];
    }
    return std::min({rows, columns, terms});
  }

  std::optional<Term> term_of(const Piece& piece, const std::vector<Factor>& factors,
                              DType type) const {
    for (size_t a = 0; a < factors.size(); ++a) {
      for (size_t b = a + 1; b < factors.size(); ++b) {
        if (factors[a].divides || factors[b].divides) continue;
        if (least_extent(piece, factors[a], factors[b]) < kLeastExtent) continue;
        return shared_out(piece, factors, {{a, b}, {}}, type);
      }
    }
    return std::nullopt;
  }
  // Nothing where a factor has iterators of both matrices that neither has, or there are only
  // constants to give.
  std::optional<Term> shared_out(const Piece& piece, const std::vector<Factor>& factors, Term term,
                                 DType type) const {
    const Factor &a = factors[term.matrix[0]], &b = factors[term.matrix[1]];
    bool fits[] = {is_matrix(piece, a, type), is_matrix(piece, b, type)};
    auto cells = [&](const Factor& f) {
      const Node& n = piece.body[f.value];
      return n.kind == NodeKind::load
                 ? element_count(program_.tensors[piece.loads[n.slot].tensor].shape)
                 : 0;
    };
    bool some = false;
    size_t smaller = cells(a) <= cells(b) ? 0 : 1;
    for (size_t i = 0; i < factors.size(); ++i) {
      if (i == term.matrix[0] || i == term.matrix[1]) continue;
      bool in[] = {fits[0] && within(factors[i], a), fits[1] && within(factors[i], b)};
      size_t side = in[smaller] ? smaller : 1 - smaller;
      if (!in[side] || !factors[i].anywhere) return std::nullopt;
      term.into[side].push_back(i);
      some = some || !is_constant(factors[i]);
    }
    return some ? std::optional(std::move(term)) : std::nullopt;
  }

  // The matrix times and over its factors, in their order.
  Contraction multiplied(const Contraction& c, const Piece& piece,
                         const std::vector<Factor>& factors, const Term& term, size_t side) {
    const Access& load = piece.loads[piece.body[factors[term.matrix[side]].value].slot];
    const BoundTensor from = program_.tensors[load.tensor];
    std::vector<Affine> forms(piece.box.size(), constant_affine(0));
    Piece cells;
    Access own;
    for (size_t d = 0; d < from.shape.size(); ++d) {
      IteratorId u = sole_iterator(load.index[d], piece);
      if (u.valid()) forms[u.index()] = iterator_affine(d);
      cells.iterators.push_back("i" + std::to_string(d));
      own.index.push_back({iterator_affine(d), -1, Boundary::in_range});
    }
    cells.box = IterationBox(from.shape);
    cells.parallel_dims = cells.box.size();
    own.tensor = load.tensor;
    cells.loads = {own};
    NodeId value = cells.body.load(0, c.accumulator);
    for (size_t i : term.into[side]) {
      NodeId other = moved(cells, piece, factors[i].value, forms);
      Op op = factors[i].divides ? Op::div : Op::mul;
      value = cells.body.operation(op, {value, other}, c.accumulator, c.span);
    }
    cells.body.results = {value};
    BoundTensor to = from;
    to.name = names_.get(from.name + "_scaled");
    to.type = c.accumulator;
    to.role = TensorRole::temporary;
    own.tensor = program_.tensors.add(std::move(to));
    cells.stores = {own};
    Contraction made;
    made.span = c.span;
    made.outputs = {own.tensor};
    made.accumulator = c.accumulator;
    made.normalized = true;
    made.pieces = {std::move(cells)};
    return made;
  }
  // A value of the piece at those forms of its iterators.
  static NodeId moved(Piece& into, const Piece& from, NodeId root,
                      const std::vector<Affine>& forms) {
    return graft(into.body, from.body, root, [&](Body& body, const Node& n) -> NodeId {
      if (n.kind == NodeKind::index) {
        IteratorId u = sole_iterator({forms[n.slot], -1, Boundary::in_range}, into.box.size());
        return u.valid() ? body.index(u.index(), n.type) : body.integer(0, n.type);
      }
      if (n.kind != NodeKind::load) return NodeId();
      Access a = from.loads[n.slot];
      for (Index& index : a.index) index.affine = substitute(index.affine, forms);
      into.loads.push_back(std::move(a));
      return body.load(into.loads.size() - 1, n.type);
    });
  }

  BoundProgram& program_;
  FreshNames names_;
};

}  // namespace

// A matrix with its factors is a tensor more, which a program that hardly fits into memory lacks.
void separate_factors(BoundProgram& program, const Target& /*target*/) {
  if (!space_first()) SeparatedFactors(program).run();
}

}  // namespace tile
