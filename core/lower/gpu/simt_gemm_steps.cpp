// The steps of a tile that hold points: conditions of the domain leave out those before and behind
// all of the tile's points, or all steps.
#include "core/lower/gpu/simt_gemm_lowering.h"

namespace tile::lowering {

// The largest or least value that the form takes in the block's tile, without what the iterators
// of `but` add; nothing where a group of several iterators is used, which no tile cuts evenly.
std::optional<Expr> SimtGemmLowering::extreme(const Affine& form, const State& s, const At& at,
                                              bool largest, const gpu::FlatIndex* but) const {
  if (!form.is_integral()) return std::nullopt;
  Expr value = form.constant.num();
  auto add = [&](const gpu::FlatIndex& group, const Expr& first, const Expr& last) {
    for (size_t u : group.iterators) {
      int64_t by = form.coefficient(u).num();
      if (by == 0 || &group == but) continue;
      if (group.iterators.size() != 1) return false;
      value = value + Expr(by) * ((by > 0) == largest ? last : first);
    }
    return true;
  };
  auto tile_of = [&](const gpu::FlatIndex& group, int64_t tile, const Expr& block) {
    Expr first = tidy(Expr(tile) * block), last = tidy(first + Expr(tile - 1));
    if (group.count % tile != 0) last = min(last, Expr(group.count - 1));
    return add(group, first, last);
  };
  for (size_t u : form_.batch.iterators) {
    int64_t by = form.coefficient(u).num();
    if (by != 0) value = value + Expr(by) * s.at[u].begin();
  }
  bool known = tile_of(form_.m, g_.m, at.block[2]) && tile_of(form_.n, g_.n, at.block[3]) &&
               add(form_.k, 0, Expr(form_.k.count - 1));
  if (!known) return std::nullopt;
  return tidy(value);
}

SimtGemmLowering::Steps SimtGemmLowering::needed_steps(const State& s, const At& at,
                                                       Steps all) const {
  if (c_.frame.open.any()) return all;  // conditions differ by the size of a call
  bool one = form_.k.iterators.size() == 1;
  for (const Constraint& c : c_.piece.constraints) {
    // 0 <= form - lo, and 0 <= hi - 1 - form.
    Affine low = c.form, high = c.form * Rational(-1);
    low.constant -= Rational(c.lo);
    high.constant += Rational(c.hi - 1);
    for (const Affine& form : {low, high}) {
      int64_t by = one ? form.coefficient(form_.k.iterators[0]).num() : 0;
      if (by == 0) {
        std::optional<Expr> most = extreme(form, s, at, true, nullptr);
        if (most) all.end = min(all.end, all.begin + Expr(steps_) * (*most + Expr(1)));
        continue;
      }
      // most + by * k >= 0: of the terms k the last, or the first.
      std::optional<Expr> most = extreme(form, s, at, true, &form_.k);
      if (!most) continue;
      if (by < 0) {
        all.end = min(all.end, floor_div(floor_div(*most, Expr(-by)), Expr(g_.k)) + Expr(1));
      } else {
        Expr first = floor_div(tidy(Expr(by - 1) - *most), Expr(by));
        all.begin = max(all.begin, floor_div(first, Expr(g_.k)));
      }
    }
  }
  return all;
}

}  // namespace tile::lowering
