// Accesses and bodies of a piece as they stand inside the loops.
#include "core/schedule/lowering.h"

namespace tile::lowering {

Expr tidy(const Expr& e) {
  std::optional<LinearForm> form = linear_form(e);
  return form ? from_linear(*form) : e;
}

Expr Position::begin() const {
  Expr sum = 0;
  for (const Level& level : levels) sum = sum + Expr(level.step) * level.value;
  return sum;
}

// Forms are integral on the domain, so that the coefficients over a common denominator divide
// exactly.
Expr PieceLowering::value_of(const Affine& form, const State& s) const {
  int64_t denominator = form.constant.den();
  for (const Rational& c : form.coefficients) denominator = lcm(denominator, c.den());
  Rational scale(denominator);
  Expr sum = (form.constant * scale).num();
  for (size_t i = 0; i < form.coefficients.size(); ++i) {
    Rational c = form.coefficients[i] * scale;
    if (!c.is_zero()) sum = sum + Expr(c.num()) * s.at[i].begin();
  }
  sum = tidy(sum);
  return denominator == 1 ? sum : floor_div(sum, Expr(denominator));
}

// Lift's boundary functions (rule 2.3 of lift.md).
Expr PieceLowering::boundary_index(const Index& index, int64_t extent, const State& s) const {
  Expr e = value_of(index.affine, s);
  switch (index.boundary) {
    case Boundary::in_range:
      return e;
    case Boundary::constant:
    case Boundary::clamp:
      return min(max(e, Expr(0)), Expr(extent - 1));
    case Boundary::wrap:
      return floor_mod(e, Expr(extent));
    case Boundary::mirror: {
      Expr d = floor_mod(select(less(e, Expr(0)), tidy(Expr(-1) - e), e), Expr(2 * extent));
      return min(d, tidy(Expr(2 * extent - 1) - d));
    }
  }
  return e;
}

nest::Access PieceLowering::access_of(const tile::Access& access, const State& s) const {
  nest::Access result;
  result.buffer = frame_.buffer_of.at(access.tensor);
  const Shape& shape = frame_.tensor(access.tensor).shape;
  for (size_t d = 0; d < access.index.size(); ++d) {
    const Index& index = access.index[d];
    bool by_value = index.value >= 0;
    result.index.push_back(by_value ? Expr(0) : boundary_index(index, shape[d], s));
    if (by_value) result.values.resize(access.index.size(), -1);
    if (by_value) result.values[d] = index.value;
  }
  if (result.values.empty() || frame_.in_row.contains(access.tensor)) {
    result.index = frame_.buffer_index(access.tensor, std::move(result.index));
  }
  return result;
}

nest::Access PieceLowering::output_access(size_t output, const State& s) const {
  return access_of(piece_.stores[output], s);
}

void settle(nest::Store& store, Value value) {
  store.body = tidied(value.body);
  store.loads = std::move(value.loads);
}

namespace {

// Index values kept inside their dimensions: the boundary rule clamp, and harmless for values that
// are inside.
void clamp_values(Body& body, Node& load, const tile::Access& access, const Shape& shape) {
  for (size_t d = 0; d < access.index.size(); ++d) {
    if (access.index[d].value < 0) continue;
    NodeId& value = load.args[static_cast<size_t>(access.index[d].value)];
    DType wide = compute_type(body[value].type);
    NodeId v = body.cast(value, wide);
    v = body.operation(Op::max, {v, body.integer(0, wide)}, wide);
    value = body.operation(Op::min, {v, body.integer(shape[d] - 1, wide)}, wide);
  }
}

}  // namespace

NodeId PieceLowering::translate(Value& into, const Piece& piece, NodeId root, const State& s,
                                const Replacement& replacement) const {
  return graft(into.body, piece.body, root, [&](Body& body, const Node& from) -> NodeId {
    if (from.kind == NodeKind::fold) {
      fail(Stage::compile, "unsupported", from.span, "loops inside elements are not lowered");
    }
    if (from.kind == NodeKind::index) {
      return body.size(tidy(s.at[static_cast<size_t>(from.slot)].begin()), from.type);
    }
    if (from.kind != NodeKind::load) return -1;
    auto slot = static_cast<size_t>(from.slot);
    const tile::Access& access = piece.loads[slot];
    NodeId known = replacement ? replacement(into, access.tensor) : -1;
    if (known >= 0) return known;
    Node load = from;
    clamp_values(body, load, access, frame_.tensor(access.tensor).shape);
    bool packed = &piece == &piece_ && slot < s.packed.size() && s.packed[slot] >= 0;
    into.loads.push_back(packed ? packed_access(slot, s) : access_of(access, s));
    load.slot = static_cast<int>(into.loads.size()) - 1;
    return body.add(std::move(load));
  });
}

}  // namespace tile::lowering
