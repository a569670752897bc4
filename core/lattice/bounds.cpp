#include <algorithm>

#include "core/lattice/simplex.h"

namespace tile::lattice {
namespace {

// Exact linear programming on one component. `again` is set when rounding to integers cut more than
// the relaxation says, so that another round may cut further.
bool relax_component(Rows& rows, const Component& component, bool& again) {
  Simplex simplex(part(rows, component));
  if (!simplex.feasible()) return false;
  for (size_t v = 0; v < component.iterators.size(); ++v) {
    Range& range = rows.box[component.iterators[v]];
    if (range.lo == no_lower || simplex.value(v) != WideRational(range.lo)) {
      if (std::optional<WideRational> low = simplex.least(v)) {
        again = again || !low->is_integer();
        range.lo = std::max(range.lo, low->ceil());
      }
    }
    if (range.hi == no_upper || simplex.value(v) != WideRational(range.hi)) {
      if (std::optional<WideRational> high = simplex.greatest(v)) {
        again = again || !high->is_integer();
        range.hi = std::min(range.hi, high->floor());
      }
    }
    if (range.empty()) return false;
  }
  return true;
}

// The values of offset + a.z on the relaxation, rounded to the residue class that they lie in.
Range form_values(const Rows& rows, const Vector& a, int64_t offset) {
  int64_t step = gcd_of(a);
  if (step == 0) return {offset, offset};
  Vector unit = a;
  for (int64_t& v : unit) v /= step;
  Range r = row_values(unit, rows.box);
  if (std::count(a.begin(), a.end(), 0) + 1 != std::ptrdiff_t(a.size())) {
    Rows extended = rows;
    extended.rows.push_back({unit, {}});
    Simplex simplex(extended);
    if (!simplex.feasible()) return {0, -1};
    size_t variable = rows.iterators + rows.rows.size();
    if (std::optional<WideRational> low = simplex.least(variable))
      r.lo = std::max(r.lo, low->ceil());
    if (std::optional<WideRational> high = simplex.greatest(variable)) {
      r.hi = std::min(r.hi, high->floor());
    }
  }
  if (r.lo != no_lower) r.lo = checked_add(offset, checked_mul(step, r.lo));
  if (r.hi != no_upper) r.hi = checked_add(offset, checked_mul(step, r.hi));
  return r;
}

Bounds no_points() {
  Bounds b;
  b.empty = true;
  return b;
}

Bounds to_bounds(const std::vector<Range>& ranges) {
  Bounds b;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].empty()) return no_points();
    if (!ranges[i].bounded() && !b.unbounded) b.unbounded = i;
    b.box.push_back({ranges[i].lo, ranges[i].hi});
  }
  return b;
}

bool has_equations(const Rows& rows) {
  return !rows.congruences.empty() || std::any_of(rows.rows.begin(), rows.rows.end(),
                                                  [](const Row& r) { return r.range.fixed(); });
}

}  // namespace

bool relax(Rows& rows) {
  constexpr int round_limit = 64;  // each round is exact; only its rounding can ask for another
  bool again = true;
  for (int round = 0; again && round < round_limit; ++round) {
    again = false;
    if (!propagate(rows)) return false;
    for (const Component& component : components(rows)) {
      if (!relax_component(rows, component, again)) return false;
    }
  }
  return true;
}

Bounds bounds(const System& system) {
  Rows rows = normalise(system);
  if (!propagate(rows)) return no_points();
  if (!has_equations(rows)) return relax(rows) ? to_bounds(rows.box) : no_points();
  std::vector<Range> own = rows.box;
  Sublattice lattice = whole_lattice(system.iterators);
  if (!eliminate(rows, lattice) || !relax(rows)) return no_points();
  for (size_t i = 0; i < own.size(); ++i) {
    Range r = form_values(rows, lattice.basis[i], lattice.offset[i]);
    own[i] = {std::max(own[i].lo, r.lo), std::min(own[i].hi, r.hi)};
  }
  return to_bounds(own);
}

void drop_implied(System& system, std::span<const Interval> box) {
  std::vector<Range> ranges;
  for (const Interval& i : box) ranges.push_back({i.lo, i.hi});
  std::erase_if(system.conditions, [&](const Condition& condition) {
    Rows rows = normalise({system.iterators, {condition}});
    if (rows.empty || !rows.congruences.empty()) return false;
    for (size_t i = 0; i < rows.iterators; ++i) {
      if (ranges[i].lo < rows.box[i].lo || ranges[i].hi > rows.box[i].hi) return false;
    }
    return std::all_of(rows.rows.begin(), rows.rows.end(),
                       [&](const Row& row) { return implied(row, ranges); });
  });
}

}  // namespace tile::lattice
