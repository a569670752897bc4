// O[s, t] = A[s] where 0 <= s - t < S is O[s, t] = 0 <= s - t < S ? A[s] : 0: the choice takes no
// value of the other arm, so that the cells without points are exactly the zeros that they were
// (rule 4.3), and the statement, which then has no condition, can be computed in those that read
// it. Broadcasts under a mask, as gradients of masked sums have, are not stored.
#include <algorithm>
#include <optional>

#include "core/ir/operation_cost.h"
#include "core/passes/normalize/substitution.h"
#include "core/passes/optimize/masked_maps.h"
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
    bool cheap = c != nullptr && !c->pieces.empty() && is_cheap(c->pieces[0].body);
    std::optional<Piece> whole = cheap ? masked_map(program, *c) : std::nullopt;
    if (!whole) continue;
    choose(*whole, c->span);
    c->pieces[0] = std::move(*whole);
  }
}

}  // namespace tile
