// Where the conditions of a domain go.
#include "core/lower/context/constraints.h"

#include <algorithm>

#include "core/kernel/coverage.h"
#include "core/lower/launch/nest_builders.h"

namespace tile::lowering {

std::vector<PlacedConstraint> place_constraints(const Piece& piece, const PieceSchedule& schedule,
                                                bool streamed) {
  auto in_tile = [&](size_t u) {
    return std::any_of(schedule.tile.begin(), schedule.tile.end(),
                       [&](const Loop& l) { return l.iterator == IteratorId(u); });
  };
  auto first_reduce = [&](size_t u) {
    size_t i = 0;
    while (i < schedule.reduce.size() && schedule.reduce[i].iterator != IteratorId(u)) ++i;
    return i;
  };
  auto last_reduce = [&](size_t u) {
    size_t last = 0;
    for (size_t i = 0; i < schedule.reduce.size(); ++i) {
      if (schedule.reduce[i].iterator == IteratorId(u)) last = i + 1;
    }
    return last;  // 0: it has no loop there
  };
  std::vector<PlacedConstraint> placed;
  for (const Constraint& c : piece.constraints) {
    PlacedConstraint p;
    p.constraint = &c;
    bool tiled = false;
    size_t latest = 0;
    std::vector<size_t> used = iterators_in(c.form);
    for (size_t u : used) {
      tiled = tiled || in_tile(u);
      if (u < piece.parallel_dims) continue;
      p.parallel_dims_only = false;
      if (!p.iterator.valid() || first_reduce(u) >= latest) {
        p.iterator = IteratorId(u);
        latest = first_reduce(u);
      }
    }
    bool settled = std::all_of(used.begin(), used.end(), [&](size_t u) {
      return IteratorId(u) == p.iterator || u < piece.parallel_dims || last_reduce(u) <= latest;
    });
    bool cut = std::any_of(schedule.outer.begin(), schedule.outer.end(),
                           [&](const Loop& l) { return l.iterator == p.iterator; });
    bool loop = p.iterator.valid() && latest < schedule.reduce.size() && !(streamed && cut);
    if (!tiled && p.parallel_dims_only) p.place = Place::outer;
    if (!tiled && !p.parallel_dims_only && settled && loop) p.place = Place::bound;
    placed.push_back(p);
  }
  return placed;
}

std::vector<Expr> conditions(const Condition& c, const std::function<Expr(const Affine&)>& value,
                             int64_t down, int64_t up) {
  std::vector<Expr> out;
  if (!c.never_below) out.push_back(tidy(value(c.form) + Expr(down) - c.lo));
  if (!c.never_above) out.push_back(tidy(c.hi - Expr(1 + up) - value(c.form)));
  return out;
}

}  // namespace tile::lowering
