#include "core/kernel/coverage.h"

#include <algorithm>
#include <map>

#include "core/ir/analysis/accesses.h"
#include "core/support/checked.h"

namespace tile {
namespace {

// u >= form (a lower bound) or u <= form on one reduction iterator.
struct Side {
  Affine form;
  bool unit = true;  // the coefficient of the iterator was 1 or -1: the bound is an integer form
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

// Every interval [max lower, min upper] holds an integer for all parallel points of the box.
// Between bounds that need not be integers a distance of one less than a whole step is asked for.
bool always_inhabited(const Sides& sides, const std::vector<int64_t>& box) {
  for (const Side& low : sides.lower) {
    for (const Side& high : sides.upper) {
      Rational least = range_over_box(high.form - low.form, box).lo;
      if (least < Rational(low.unit && high.unit ? 0 : 1)) return false;
    }
  }
  return true;
}

}  // namespace

FormRange range_over_box(const Affine& form, const std::vector<int64_t>& box) {
  FormRange e{form.constant, form.constant};
  for (size_t i = 0; i < form.coefficients.size(); ++i) {
    Rational reach = form.coefficients[i] * Rational(std::max<int64_t>(box[i] - 1, 0));
    (reach < Rational(0) ? e.lo : e.hi) += reach;
  }
  return e;
}

std::vector<size_t> iterators_in(const Affine& form) {
  std::vector<size_t> used;
  for (size_t i = 0; i < form.coefficients.size(); ++i) {
    if (!form.coefficients[i].is_zero()) used.push_back(i);
  }
  return used;
}

Constraint integral(const Constraint& c) {
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
  for (size_t u = piece.parallel_dims; u < piece.box.size(); ++u) {
    if (piece.box[u] <= 0) return false;
  }
  for (const Constraint& c : piece.constraints) {
    std::vector<size_t> reductions;
    for (size_t u : iterators_in(c.form)) {
      if (u >= piece.parallel_dims) reductions.push_back(u);
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

bool reads_own_cell(const Piece& piece, const Access& load, const Shape& shape) {
  std::vector<bool> fixed(piece.iterators.size(), false);
  for (size_t d = 0; d < shape.size(); ++d) {
    const Index& index = load.index[d];
    if (is_constant_index(index) && index.affine.constant.is_zero() && shape[d] == 1) continue;
    IteratorId u = sole_iterator(index, piece);
    if (!u.valid() || fixed[u.index()] || piece.box[u] != shape[d]) return false;
    fixed[u.index()] = true;
  }
  for (size_t u = 0; u < piece.iterators.size(); ++u) {
    if (!fixed[u] && piece.box[u] != 1) return false;
  }
  return true;
}

bool stores_all_parallel_dims(const Contraction& c, const Piece& piece) {
  for (const Constraint& k : piece.constraints) {
    std::vector<size_t> used = iterators_in(k.form);
    bool parallel_dims_only =
        std::all_of(used.begin(), used.end(), [&](size_t u) { return u < piece.parallel_dims; });
    if (parallel_dims_only) return false;
  }
  bool zero_if_empty = c.aggregation == Aggregation::sum && !c.fill;
  return zero_if_empty || surely_nonempty(piece);
}

bool covers_output(const Contraction& c, const BoundTensors& tensors) {
  int64_t owned = 0;
  for (const Piece& piece : c.pieces) {
    if (!stores_all_parallel_dims(c, piece)) return false;
    int64_t points = 1;
    for (size_t u = 0; u < piece.parallel_dims; ++u) points = checked_mul(points, piece.box[u]);
    owned = checked_add(owned, points);
  }
  // An output that stands there several times gets as many cells from each parallel point.
  return std::all_of(c.outputs.begin(), c.outputs.end(), [&](TensorId out) {
    auto times = std::count(c.outputs.begin(), c.outputs.end(), out);
    return checked_mul(owned, times) == element_count(tensors[out].shape);
  });
}

}  // namespace tile
