// Accesses and bodies of a piece as they stand inside the loops.
#include <algorithm>

#include "core/lower/piece/lower_body.h"
#include "core/lower/piece/lowering.h"

namespace tile::lowering {

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

nest::Access PieceLowering::output_access(size_t output, const State& s) const {
  const tile::Access& store = piece_.stores[output];
  nest::Access result;
  result.buffer = frame_.buffer_of.at(store.tensor);
  for (const Index& index : store.index) result.index.push_back(value_of(index.affine, s));
  result.index = frame_.buffer_index(store.tensor, std::move(result.index));
  return result;
}

void settle(nest::Store& store, Value value) {
  store.body = tidied(value.body);
  store.loads = std::move(value.loads);
}

LoopContext PieceLowering::loop_context(const Piece& piece, const State& s,
                                        const Replacement& replacement) const {
  return {
      piece,
      [&](int iterator) {
        auto u = static_cast<size_t>(iterator);
        int64_t last = std::max<int64_t>(piece.box[u] - 1, 0);
        return IndexValue{tidy(s.at[u].begin()), 0, last, 1};
      },
      [&](const Affine& form) { return value_of(form, s); },
      [&](int load) -> std::optional<nest::Access> {
        auto slot = static_cast<size_t>(load);
        bool packed = &piece == &piece_ && slot < s.packed.size() && s.packed[slot] >= 0;
        if (!packed) return std::nullopt;
        return packed_access(slot, s);
      },
      [&](TensorId tensor) -> const Shape& { return frame_.tensor(tensor).shape; },
      [&](TensorId tensor) { return frame_.buffer_of.at(tensor); },
      [&](TensorId tensor, nest::Access& access) { frame_.place(tensor, access); },
      [&](TensorId tensor) { return frame_.scalar(tensor); },
      replacement,
      &piece == &piece_ ? known_fold_ : nullptr,
      [&](int result) { return in_tile(window_[static_cast<size_t>(result)].whole, s); },
  };
}

NodeId PieceLowering::translate(Value& into, const Piece& piece, NodeId root, const State& s,
                                const Replacement& replacement) const {
  LoopContext around = loop_context(piece, s, replacement);
  return BodyLowering(around, into).run(piece.body, root);
}

NodeId PieceLowering::element(Value& into, size_t load, const State& s) const {
  State unpacked = s;
  unpacked.packed.assign(unpacked.packed.size(), -1);
  Body one;
  NodeId root = one.load(static_cast<int>(load), frame_.tensor(piece_.loads[load].tensor).type);
  LoopContext around = loop_context(piece_, unpacked, {});
  return BodyLowering(around, into).run(one, root);
}

}  // namespace tile::lowering
