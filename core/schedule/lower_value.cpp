// Accesses and bodies of a piece as they stand inside the loops.
#include <algorithm>

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

namespace {

// An index that is a value: kept inside the dimension by the boundary rule clamp.
NodeId clamped(Body& body, NodeId value, int64_t extent) {
  DType type = body[value].type;
  DType wide = compute_type(type);
  NodeId v = body.cast(value, wide);
  v = body.operation(Op::max, {v, body.integer(0, wide)}, wide);
  return body.operation(Op::min, {v, body.integer(extent - 1, wide)}, wide);
}

}  // namespace

nest::Access PieceLowering::access_of(const tile::Access& access, const State& s, Value& into,
                                      const std::vector<NodeId>& copy) const {
  nest::Access result;
  result.buffer = frame_.buffer_of.at(access.tensor);
  const Shape& shape = frame_.tensor(access.tensor).shape;
  for (size_t d = 0; d < access.index.size(); ++d) {
    const Index& index = access.index[d];
    if (index.value < 0) {
      result.index.push_back(boundary_index(index, shape[d], s));
      continue;
    }
    NodeId value = copy[static_cast<size_t>(index.value)];
    internal_check(value >= 0, "lower: an index value that comes after its load");
    result.values.resize(access.index.size(), -1);
    result.values[d] = clamped(into.body, value, shape[d]);
    result.index.emplace_back(0);
  }
  if (result.values.empty()) {
    result.index = frame_.buffer_index(access.tensor, std::move(result.index));
  }
  return result;
}

nest::Access PieceLowering::output_access(size_t output, const State& s) const {
  Value none;
  return access_of(piece_.stores[output], s, none, {});
}

void settle(nest::Store& store, Value value) {
  size_t results = value.body.results.size();
  for (const nest::Access& a : value.loads) {
    for (NodeId id : a.values) {
      if (id >= 0) value.body.results.push_back(id);
    }
  }
  store.body = tidied(value.body);
  size_t next = results;
  for (nest::Access& a : value.loads) {
    for (NodeId& id : a.values) {
      if (id >= 0) id = store.body.results[next++];
    }
  }
  store.body.results.resize(results);
  store.loads = std::move(value.loads);
}

NodeId PieceLowering::translate(Value& into, const Piece& piece, NodeId root, const State& s,
                                const Replacement& replacement) const {
  const Body& from = piece.body;
  std::vector<bool> needed(from.nodes.size(), false);
  needed[static_cast<size_t>(root)] = true;
  auto need = [&](NodeId id) { needed[static_cast<size_t>(id)] = true; };
  for (size_t i = from.nodes.size(); i-- > 0;) {
    const Node& node = from.nodes[i];
    if (!needed[i]) continue;
    std::for_each(node.args.begin(), node.args.end(), need);
    if (node.kind != NodeKind::load) continue;
    for (const Index& index : piece.loads[static_cast<size_t>(node.slot)].index) {
      if (index.value >= 0) need(index.value);
    }
  }
  std::vector<NodeId> copy(from.nodes.size(), -1);
  for (size_t i = 0; i < from.nodes.size(); ++i) {
    if (!needed[i]) continue;
    Node node = from.nodes[i];
    if (node.kind == NodeKind::index) {
      copy[i] = into.body.size(tidy(s.at[static_cast<size_t>(node.slot)].begin()), node.type);
      continue;
    }
    if (node.kind == NodeKind::load) {
      auto slot = static_cast<size_t>(node.slot);
      const tile::Access& access = piece.loads[slot];
      copy[i] = replacement ? replacement(into, access.tensor) : -1;
      if (copy[i] >= 0) continue;
      bool packed = &piece == &piece_ && slot < s.packed.size() && s.packed[slot] >= 0;
      nest::Access read = packed ? packed_access(slot, s) : access_of(access, s, into, copy);
      into.loads.push_back(std::move(read));
      node.slot = static_cast<int>(into.loads.size()) - 1;
    }
    for (NodeId& arg : node.args) arg = copy[static_cast<size_t>(arg)];
    copy[i] = into.body.add(std::move(node));
  }
  return copy[static_cast<size_t>(root)];
}

}  // namespace tile::lowering
