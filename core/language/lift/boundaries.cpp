#include "core/language/lift/boundaries.h"

namespace tile::lift {

std::optional<Boundary> find_boundary(std::string_view name) {
  if (name == "Clamp" || name == "clamp") return Boundary::clamp;
  if (name == "Mirror" || name == "mirror") return Boundary::mirror;
  if (name == "Wrap" || name == "wrap") return Boundary::wrap;
  if (name == "Constant" || name == "constant") return Boundary::constant;
  return std::nullopt;
}

Expr clamp_index(const Expr& raw, const Expr& n) { return min(max(raw, 0), n - 1); }
Expr wrap_index(const Expr& raw, const Expr& n) {
  return Expr::make(ExprKind::floor_mod, {Expr::make(ExprKind::add, {raw, Expr(0)}), n});
}
Expr mirror_index(const Expr& raw, const Expr& n) {
  Expr d = trunc_mod(select(less(raw, 0), -1 - raw, raw), 2 * n);
  return select(less(d, n), d, 2 * n - 1 - d);
}

Expr boundary_index(Boundary kind, const Expr& raw, const Expr& n) {
  if (kind == Boundary::wrap) return wrap_index(raw, n);
  if (kind == Boundary::mirror) return mirror_index(raw, n);
  return clamp_index(raw, n);
}

bool is_clamped(const Expr& e) {
  return e.kind() == ExprKind::min && e.args().size() == 2 && e.args()[0].kind() == ExprKind::max &&
         e.args()[0].args().size() == 2 && e.args()[0].args()[1].is_constant(0);
}

bool is_wrapped(const Expr& e) {
  return e.kind() == ExprKind::floor_mod && e.args()[0].kind() == ExprKind::add &&
         e.args()[0].args().size() == 2 && e.args()[0].args()[1].is_constant(0);
}

std::optional<BoundedIndex> find_bounded_index(const Expr& e, const Expr& n) {
  if (is_clamped(e)) {
    Expr raw = e.args()[0].args()[0];
    if (clamp_index(raw, n) == e) return BoundedIndex{Boundary::clamp, raw};
  }
  if (is_wrapped(e) && e.args()[1] == n) {
    return BoundedIndex{Boundary::wrap, e.args()[0].args()[0]};
  }
  // select(d < n, d, …) with d = select(raw < 0, …, raw) % 2n.
  if (e.kind() != ExprKind::select || e.args()[1].kind() != ExprKind::trunc_mod)
    return std::nullopt;
  const Expr& folded = e.args()[1].args()[0];
  if (folded.kind() != ExprKind::select) return std::nullopt;
  const Expr& raw = folded.args()[2];
  if (mirror_index(raw, n) == e) return BoundedIndex{Boundary::mirror, raw};
  return std::nullopt;
}

}  // namespace tile::lift
