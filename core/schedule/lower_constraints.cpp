// Where the conditions of a domain go, and what they prove.
#include <algorithm>

#include "core/schedule/lowering.h"

namespace tile::lowering {
namespace {

struct Extremes {
  Rational lo, hi;
};
// The least and greatest value of a form on the box.
Extremes over_box(const Affine& form, const std::vector<int64_t>& box) {
  Extremes e{form.constant, form.constant};
  for (size_t i = 0; i < form.coefficients.size(); ++i) {
    Rational reach = form.coefficients[i] * Rational(std::max<int64_t>(box[i] - 1, 0));
    (reach < Rational(0) ? e.lo : e.hi) += reach;
  }
  return e;
}

// u >= form (a lower bound) or u <= form on one reduction unknown.
struct Side {
  Affine form;
  bool unit = true;  // the coefficient of the unknown was 1 or -1: the bound is an integer form
};
struct Sides {
  std::vector<Side> lower, upper;
};

void add_sides(const Constraint& c, size_t u, Sides& sides) {
  Rational a = c.form.coefficient(u);
  Affine rest = c.form;
  rest.coefficients[u] = 0;
  Rational inverse = Rational(1) / a;
  Side low{(constant_affine(c.lo) - rest) * inverse, a == Rational(1) || a == Rational(-1)};
  Side high{(constant_affine(c.hi - 1) - rest) * inverse, low.unit};
  if (a < Rational(0)) std::swap(low, high);
  sides.lower.push_back(low);
  sides.upper.push_back(high);
}

// Every interval [max lower, min upper] holds an integer for all owners of the box. Between bounds
// that need not be integers a distance of one less than a whole step is asked for.
bool always_inhabited(const Sides& sides, const std::vector<int64_t>& box) {
  for (const Side& low : sides.lower) {
    for (const Side& high : sides.upper) {
      Rational least = over_box(high.form - low.form, box).lo;
      if (least < Rational(low.unit && high.unit ? 0 : 1)) return false;
    }
  }
  return true;
}

std::vector<size_t> unknowns_of(const Affine& form) {
  std::vector<size_t> used;
  for (size_t i = 0; i < form.coefficients.size(); ++i) {
    if (!form.coefficients[i].is_zero()) used.push_back(i);
  }
  return used;
}

}  // namespace

Constraint whole(const Constraint& c) {
  int64_t denominator = c.form.constant.den();
  for (const Rational& a : c.form.coefficients) denominator = lcm(denominator, a.den());
  Constraint k = c;
  k.form = c.form * Rational(denominator);
  k.lo = checked_mul(c.lo, denominator);
  k.hi = checked_mul(c.hi, denominator);
  return k;
}

bool surely_nonempty(const Piece& piece) {
  std::map<size_t, Sides> by_reduction;
  for (size_t u = piece.owners; u < piece.box.size(); ++u) {
    if (piece.box[u] <= 0) return false;
  }
  for (const Constraint& c : piece.constraints) {
    std::vector<size_t> reductions;
    for (size_t u : unknowns_of(c.form)) {
      if (u >= piece.owners) reductions.push_back(u);
    }
    if (reductions.empty()) continue;
    if (reductions.size() > 1 || !c.form.is_integral()) return false;
    add_sides(c, reductions[0], by_reduction[reductions[0]]);
  }
  for (auto& [u, sides] : by_reduction) {
    sides.lower.push_back({constant_affine(0), true});
    sides.upper.push_back({constant_affine(piece.box[u] - 1), true});
    if (!always_inhabited(sides, piece.box)) return false;
  }
  return true;
}

bool stores_all_owners(const Contraction& c, const Piece& piece) {
  for (const Constraint& k : piece.constraints) {
    std::vector<size_t> used = unknowns_of(k.form);
    bool owners_only =
        std::all_of(used.begin(), used.end(), [&](size_t u) { return u < piece.owners; });
    if (owners_only) return false;
  }
  bool zero_if_empty = c.aggregation == Aggregation::sum && !c.fill;
  return zero_if_empty || surely_nonempty(piece);
}

bool covers_output(const Contraction& c, const std::vector<BoundTensor>& tensors) {
  int64_t owned = 0;
  for (const Piece& piece : c.pieces) {
    if (!stores_all_owners(c, piece)) return false;
    int64_t points = 1;
    for (size_t u = 0; u < piece.owners; ++u) points = checked_mul(points, piece.box[u]);
    owned = checked_add(owned, points);
  }
  // An output that stands there several times gets as many cells from each owner.
  return std::all_of(c.outputs.begin(), c.outputs.end(), [&](TensorId out) {
    auto times = std::count(c.outputs.begin(), c.outputs.end(), out);
    return checked_mul(owned, times) == element_count(tensors[static_cast<size_t>(out)].shape);
  });
}

std::vector<PlacedConstraint> place_constraints(const Piece& piece, const PieceSchedule& schedule,
                                                bool streamed) {
  auto in_tile = [&](size_t u) {
    return std::any_of(schedule.tile.begin(), schedule.tile.end(),
                       [&](const Loop& l) { return l.unknown == static_cast<int>(u); });
  };
  auto first_reduce = [&](size_t u) {
    size_t i = 0;
    while (i < schedule.reduce.size() && schedule.reduce[i].unknown != static_cast<int>(u)) ++i;
    return i;
  };
  auto last_reduce = [&](size_t u) {
    size_t last = 0;
    for (size_t i = 0; i < schedule.reduce.size(); ++i) {
      if (schedule.reduce[i].unknown == static_cast<int>(u)) last = i + 1;
    }
    return last;  // 0: it has no loop there
  };
  std::vector<PlacedConstraint> placed;
  for (const Constraint& c : piece.constraints) {
    PlacedConstraint p;
    p.constraint = &c;
    bool tiled = false;
    size_t latest = 0;
    std::vector<size_t> used = unknowns_of(c.form);
    for (size_t u : used) {
      tiled = tiled || in_tile(u);
      if (u < piece.owners) continue;
      p.owners_only = false;
      if (p.unknown < 0 || first_reduce(u) >= latest) {
        p.unknown = static_cast<int>(u);
        latest = first_reduce(u);
      }
    }
    bool settled = std::all_of(used.begin(), used.end(), [&](size_t u) {
      return static_cast<int>(u) == p.unknown || u < piece.owners || last_reduce(u) <= latest;
    });
    bool cut = std::any_of(schedule.outer.begin(), schedule.outer.end(),
                           [&](const Loop& l) { return l.unknown == p.unknown; });
    bool loop = p.unknown >= 0 && latest < schedule.reduce.size() && !(streamed && cut);
    if (!tiled && p.owners_only) p.place = Place::outer;
    if (!tiled && !p.owners_only && settled && loop) p.place = Place::bound;
    placed.push_back(p);
  }
  return placed;
}

std::vector<Expr> conditions(const Constraint& c, const Piece& piece,
                             const std::function<Expr(const Affine&)>& value, int64_t down,
                             int64_t up) {
  Constraint k = whole(c);
  Extremes e = over_box(k.form, piece.box);
  std::vector<Expr> out;
  if (e.lo < Rational(k.lo)) out.push_back(tidy(value(k.form) + Expr(down - k.lo)));
  if (e.hi >= Rational(k.hi)) out.push_back(tidy(Expr(k.hi - 1 - up) - value(k.form)));
  return out;
}

}  // namespace tile::lowering
