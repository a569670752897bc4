// Accesses and bodies of a piece as they stand inside the loops.
#include "core/lower/context/piece_values.h"

#include <algorithm>

#include "core/lower/launch/nest_builders.h"
#include "core/support/checked.h"

namespace tile::lowering {

Expr Position::begin() const {
  Expr sum = 0;
  for (const Level& level : levels) sum = sum + Expr(level.step) * level.value;
  return sum;
}

void settle(nest::Store& store, Value value) {
  store.body = tidied(value.body);
  store.loads = std::move(value.loads);
}

// Forms are integral on the domain, so that the coefficients over a common denominator divide
// exactly.
Expr PieceValues::value_of(const Affine& form, const State& s) const {
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

nest::Access PieceValues::output_access(size_t output, const State& s) const {
  const tile::Access& store = c_.piece.stores[output];
  nest::Access result;
  result.buffer = c_.frame.buffer_of.at(store.tensor);
  for (const Index& index : store.index) result.index.push_back(value_of(index.affine, s));
  result.index = c_.frame.buffer_index(store.tensor, std::move(result.index));
  return result;
}

LoopContext PieceValues::loop_context(const Piece& piece, const State& s,
                                      const Replacement& replacement) const {
  return {
      piece,
      [&](IteratorId iterator) {
        int64_t last = std::max<int64_t>(c_.frame.open.most(piece, iterator) - 1, 0);
        return IndexValue{tidy(s.at[iterator].begin()), 0, last, 1};
      },
      [&](const Affine& form) { return value_of(form, s); },
      [&](size_t load) -> std::optional<nest::Access> {
        bool packed = &piece == &c_.piece && load < s.packed.size() && s.packed[load].valid();
        if (!packed) return std::nullopt;
        return c_.packed_access(load, s);
      },
      [&](TensorId tensor) -> const Shape& { return c_.frame.tensor(tensor).shape; },
      [&](TensorId tensor, size_t d) {
        return c_.frame.open.extent(c_.frame.tensor(tensor), tensor, d);
      },
      [&](const Node& node) { return c_.frame.literal(node); },
      [&](TensorId tensor) { return c_.frame.buffer_of.at(tensor); },
      [&](TensorId tensor, nest::Access& access) { c_.frame.place(tensor, access); },
      [&](TensorId tensor) { return c_.frame.scalar(tensor); },
      replacement,
      &piece == &c_.piece ? known_fold_ : nullptr,
      [&](size_t result) { return in_tile(fold_buffers_[result], s); },
  };
}

NodeId PieceValues::translate(Value& into, const Piece& piece, NodeId root, const State& s,
                              const Replacement& replacement) const {
  LoopContext around = loop_context(piece, s, replacement);
  return BodyLowering(around, into).run(piece.body, root);
}

NodeId PieceValues::element(Value& into, size_t load, const State& s) const {
  State unpacked = s;
  unpacked.packed.assign(unpacked.packed.size(), nest::BufferId());
  Body one;
  NodeId root = one.load(load, c_.frame.tensor(c_.piece.loads[load].tensor).type);
  LoopContext around = loop_context(c_.piece, unpacked, {});
  return BodyLowering(around, into).run(one, root);
}

nest::Block PieceValues::guarded(nest::Block block, const State& s, Tested tested) const {
  if (s.guards == Guards::none) return block;
  nest::If guard;
  for (const PlacedConstraint& p : c_.constraints) {
    bool needed = p.parallel_dims_only ? tested == Tested::cells || !c_.sums_all_cells
                                       : tested == Tested::terms;
    if (p.place != Place::tile || !needed) continue;
    std::vector<Expr> more = conditions_at(c_.frame.open.condition(*p.constraint, c_.piece), s);
    guard.nonnegative.insert(guard.nonnegative.end(), more.begin(), more.end());
  }
  if (guard.nonnegative.empty()) return block;
  guard.then = std::move(block);
  return {statement(std::move(guard))};
}

std::vector<Expr> PieceValues::conditions_at(const Constraint& c, const State& s) const {
  return conditions_at(c_.frame.open.condition(c, c_.piece), s);
}

std::vector<Expr> PieceValues::conditions_at(const Condition& c, const State& s) const {
  return conditions(c, [&](const Affine& form) { return value_of(form, s); });
}

std::vector<Expr> PieceValues::possible_at(const Constraint& c, const State& s) const {
  Condition k = c_.frame.open.condition(c, c_.piece);
  auto [down, up] = reach(k.form, s);
  std::vector<Expr> out;
  if (!k.never_below) out.push_back(tidy(value_of(k.form, s) + Expr(up) - k.lo));
  if (!k.never_above) out.push_back(tidy(k.hi - Expr(1 + down) - value_of(k.form, s)));
  return out;
}

PieceValues::Reach PieceValues::reach(const Affine& form, const State& s) const {
  Reach r;
  for (IteratorId u : s.at.ids()) {
    const Position& p = s.at[u];
    int64_t count = p.size.is_constant() ? p.size.value() : p.bound;
    int64_t last = checked_mul(form.coefficient(u).num(), std::max<int64_t>(count - 1, 0));
    (last < 0 ? r.down : r.up) += last;
  }
  return r;
}

void PieceValues::know_fold(const Node* fold, std::vector<nest::BufferId> buffers) {
  known_fold_ = fold;
  fold_buffers_ = std::move(buffers);
}

nest::Access in_tile(nest::BufferId buffer, const State& s) {
  nest::Access a;
  a.buffer = buffer;
  a.index = s.tile_index;
  if (a.index.empty()) a.index.emplace_back(0);
  return a;
}

}  // namespace tile::lowering
