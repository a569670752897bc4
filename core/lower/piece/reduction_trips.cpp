#include "core/lower/piece/reduction_trips.h"

#include <algorithm>
#include <cstdlib>

#include "core/lower/launch/nest_builders.h"
#include "core/support/checked.h"

namespace tile::lowering {
namespace {

// Fewer trips, as the taps of a window have, are tested one by one.
constexpr int64_t kFewestTrips = 16;

// A condition of which the tile's loops test the points.
bool tested(const PlacedConstraint& p, IteratorId iterator) {
  return p.place == Place::tile && !p.parallel_dims_only &&
         !p.constraint->form.coefficient(iterator).is_zero();
}

}  // namespace

struct ReductionTrips::Bounds {
  std::vector<Expr> begin, end;              // of trips with points
  std::vector<Expr> whole_begin, whole_end;  // of trips with all of them
};

namespace {

// The trips v with `least` <= step * v, where step may be negative.
void at_least(const Expr& least, int64_t step, std::vector<Expr>& begin, std::vector<Expr>& end) {
  int64_t by = std::abs(step);
  if (step > 0) {
    begin.push_back(floor_div(tidy(least + Expr(by - 1)), Expr(by)));
  } else {
    end.push_back(tidy(floor_div(tidy(Expr(0) - least), Expr(by)) + Expr(1)));
  }
}
void at_most(const Expr& most, int64_t step, std::vector<Expr>& begin, std::vector<Expr>& end) {
  at_least(tidy(Expr(0) - most), -step, begin, end);
}

Expr greatest(Expr least, const std::vector<Expr>& all) {
  for (const Expr& e : all) least = max(least, e);
  return least;
}
Expr lowest(Expr most, const std::vector<Expr>& all) {
  for (const Expr& e : all) most = min(most, e);
  return most;
}

}  // namespace

// The form in a trip is what it is at the block's begin, and more by what the trip's own values and
// the tile's cells add.
void ReductionTrips::bound(const PlacedConstraint& p, const Loop& l, const State& s,
                           Bounds& b) const {
  Condition k = c_.frame.open.condition(*p.constraint, c_.piece);
  State trip = s;
  trip.at[l.iterator].size = l.step;
  auto [down, up] = values_.reach(k.form, trip);
  Expr at = values_.value_of(k.form, s);
  int64_t step = checked_mul(k.form.coefficient(l.iterator).num(), l.step);
  if (!k.never_below) {
    at_least(tidy(k.lo - at - Expr(up)), step, b.begin, b.end);
    at_least(tidy(k.lo - at - Expr(down)), step, b.whole_begin, b.whole_end);
  }
  if (!k.never_above) {
    at_most(tidy(k.hi - Expr(1) - at - Expr(down)), step, b.begin, b.end);
    at_most(tidy(k.hi - Expr(1) - at - Expr(up)), step, b.whole_begin, b.whole_end);
  }
}

// No condition but those on this reduction is tested for the terms of a tile.
bool ReductionTrips::decides_all(IteratorId iterator) const {
  return std::all_of(c_.constraints.begin(), c_.constraints.end(), [&](const PlacedConstraint& p) {
    if (p.place != Place::tile) return true;
    return p.parallel_dims_only ? c_.sums_all_cells : tested(p, iterator);
  });
}

std::optional<Trips> ReductionTrips::trips(size_t reduce, const State& s, const Expr& count) const {
  const Loop& l = c_.schedule.reduce[reduce];
  bool few = s.at[l.iterator].bound < kFewestTrips * l.step;
  if (is_gpu(c_.frame.target) || c_.tiles || few) return std::nullopt;
  Bounds b;
  for (const PlacedConstraint& p : c_.constraints) {
    if (tested(p, l.iterator)) bound(p, l, s, b);
  }
  if (b.begin.empty() && b.end.empty()) return std::nullopt;
  Trips t;
  t.begin = greatest(0, b.begin);
  t.end = max(t.begin, lowest(count, b.end));
  t.whole_begin = t.begin;
  t.whole_end = t.end;
  t.starts_whole = b.whole_begin.empty();
  t.ends_whole = b.whole_end.empty();
  t.has_whole = decides_all(l.iterator);
  if (!t.has_whole) return t;
  if (!t.starts_whole) t.whole_begin = min(t.end, greatest(t.begin, b.whole_begin));
  if (!t.ends_whole) t.whole_end = max(t.whole_begin, lowest(t.end, b.whole_end));
  return t;
}

}  // namespace tile::lowering
