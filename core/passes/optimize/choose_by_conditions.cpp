// O[s, t] = A[s] where 0 <= s - t < S is O[s, t] = 0 <= s - t < S ? A[s] : 0: the choice takes no
// value of the other arm, so that the cells without points are exactly the zeros that they were
// (rule 4.3), and the statement, which then has no condition, can be computed in those that read
// it. Broadcasts under a mask, as gradients of masked sums have, are not stored.
#include <algorithm>
#include <optional>

#include "core/ir/operation_cost.h"
#include "core/passes/normalize/index_forms.h"
#include "core/passes/normalize/substitution.h"
#include "core/passes/optimize/optimize.h"

namespace tile {
namespace {

constexpr size_t kOperations = 4;  // of a body that is worth computing where it is not needed

bool is_cheap(const Body& body) {
  DType type = body[body.results[0]].type;
  if (type == DType::bool_ || type != compute_type(type)) return false;
  size_t operations = 0;
  for (const Node& node : body.nodes) {
    if (node.kind == NodeKind::fold) return false;
    if (node.kind != NodeKind::operation) continue;
    if (is_dear(node.op) || ++operations > kOperations) return false;
  }
  return true;
}

// The piece over all cells of the result, one point for each, the old box being conditions;
// nullopt: it does not name cells by its iterators.
std::optional<Piece> over_all_cells(Piece piece, const Shape& shape) {
  std::vector<bool> used(piece.iterators.size(), false);
  for (size_t d = 0; d < shape.size(); ++d) {
    const Index& index = piece.stores[0].index[d];
    if (index.affine == constant_affine(0) && shape[d] == 1) continue;
    size_t u = 0;
    while (u < used.size() && !(index.affine == iterator_affine(u))) ++u;
    if (u == used.size() || used[u]) return std::nullopt;
    used[u] = true;
    if (piece.box[u] == shape[d]) continue;
    piece.constraints.push_back({index.affine, 0, piece.box[u], true});
    piece.box[u] = shape[d];
  }
  for (size_t u = 0; u < used.size(); ++u) {
    if (!used[u] && piece.box[u] != 1) return std::nullopt;
  }
  return piece;
}

// Whether all loads are elements also where the conditions do not hold.
bool loads_anywhere(const BoundProgram& program, Piece whole) {
  whole.constraints.clear();
  IndexForms forms(whole);
  for (const Access& load : whole.loads) {
    const Shape& shape = program.tensors[load.tensor].shape;
    for (size_t d = 0; d < load.index.size(); ++d) {
      const Index& index = load.index[d];
      bool plain = index.value < 0 && index.boundary == Boundary::in_range;
      if (!plain || !forms.within(index.affine, 0, shape[d])) return false;
    }
  }
  return true;
}

// The statement's piece over all cells if it is such a map.
std::optional<Piece> masked_map(const BoundProgram& program, const Contraction& c) {
  if (!c.normalized || c.pieces.size() != 1 || c.fill || c.outputs.size() != 1) return std::nullopt;
  const Piece& piece = c.pieces[0];
  const BoundTensor& result = program.tensors[c.outputs[0]];
  bool points = std::all_of(piece.box.begin(), piece.box.end(), [](int64_t n) { return n > 0; });
  bool tests = std::all_of(piece.constraints.begin(), piece.constraints.end(),
                           [](const Constraint& k) { return k.form.is_integral(); });
  bool maps = points && tests && !piece.constraints.empty() &&
              result.role == TensorRole::temporary && !result.view_of &&
              piece.parallel_dims == piece.iterators.size() && is_cheap(piece.body);
  std::optional<Piece> whole = maps ? over_all_cells(piece, result.shape) : std::nullopt;
  return whole && loads_anywhere(program, *whole) ? whole : std::nullopt;
}

void choose(Piece& piece, Span span) {
  Body& body = piece.body;
  NodeId holds;
  auto both = [&](NodeId test) {
    holds =
        holds.valid() ? body.operation(Op::logical_and, {holds, test}, DType::bool_, span) : test;
  };
  for (const Constraint& k : piece.constraints) {
    NodeId value = affine_value(body, k.form, span);
    NodeId lo = body.integer(k.lo, DType::i64, span), hi = body.integer(k.hi, DType::i64, span);
    both(body.operation(Op::ge, {value, lo}, DType::bool_, span));
    both(body.operation(Op::lt, {value, hi}, DType::bool_, span));
  }
  NodeId value = body.results[0];
  DType type = body[value].type;
  NodeId zero = is_float(type) ? body.real(0, type, span) : body.integer(0, type, span);
  body.results = {body.operation(Op::select, {holds, value, zero}, type, span)};
  body = tidied(body);
  piece.constraints.clear();
}

}  // namespace

void choose_by_conditions(BoundProgram& program, const Target&) {
  for (BoundStatement& statement : program.statements) {
    Contraction* c = std::get_if<Contraction>(&statement);
    std::optional<Piece> whole = c == nullptr ? std::nullopt : masked_map(program, *c);
    if (!whole) continue;
    choose(*whole, c->span);
    c->pieces[0] = std::move(*whole);
  }
}

}  // namespace tile
