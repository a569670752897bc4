// Tiles at a border of the domain: whether all of a tile's points are in it, all but some rows at
// one end, or each must be tested.
#include "core/lower/piece/borders.h"

#include <algorithm>

#include "core/kernel/coverage.h"
#include "core/lower/launch/nest_builders.h"

namespace tile::lowering {

namespace {

using nest::Block;

constexpr int64_t kMostMissing = 2;  // rows at one end of a tile that has code of its own

}  // namespace

Borders::Borders(const PieceContext& context, const PieceValues& values)
    : c_(context), values_(values) {
  if (!c_.schedule.tile.empty()) tile_test_ = tile_test_place();
  if (tile_test_) tap_test_ = tap_test_place();
}

// The loop in `reduce` inside which a whole tile is tested: after the reductions in the tile's
// conditions. None where no such condition has a reduction, or the lanes of one.
std::optional<size_t> Borders::tile_test_place() const {
  std::optional<size_t> place;
  for (const PlacedConstraint& p : c_.constraints) {
    if (p.place != Place::tile || p.parallel_dims_only) continue;
    size_t after = 0;
    for (size_t i = 0; i < c_.schedule.reduce.size(); ++i) {
      const Loop& l = c_.schedule.reduce[i];
      if (p.constraint->form.coefficient(l.iterator).is_zero()) continue;
      if (l.binding == Binding::vector) return std::nullopt;
      after = i + 1;
    }
    place = std::max(place.value_or(0), after);
  }
  return place;
}

// The first of the loops in `reduce` before the whole tile's test that are written out, from one
// end of their reductions to the other.
std::optional<size_t> Borders::tap_test_place() const {
  auto over = [](const std::vector<Loop>& loops, IteratorId iterator) {
    return std::count_if(loops.begin(), loops.end(),
                         [&](const Loop& l) { return l.iterator == iterator; });
  };
  size_t place = *tile_test_;
  while (place > 0) {
    const Loop& l = c_.schedule.reduce[place - 1];
    bool whole =
        over(c_.schedule.reduce, l.iterator) == 1 && over(c_.schedule.outer, l.iterator) == 0;
    // A loop of a run-time number of taps is not written out.
    bool known = !c_.is_bounded(l.iterator) && !c_.sized_at_run_time(l.iterator);
    if (l.binding != Binding::unroll || !whole || !known) break;
    --place;
  }
  return place < *tile_test_ ? std::optional(place) : std::nullopt;
}

// Expressions that are all >= 0 where the domain has all points of the tile's rows, for all values
// of the reductions whose loops are inside.
std::vector<Expr> Borders::tile_conditions(const State& s, const TileRows& rows) const {
  std::vector<Expr> all;
  size_t ranging = tap_test_ ? c_.piece.box.size() : c_.piece.parallel_dims;
  for (const PlacedConstraint& p : c_.constraints) {
    bool untested = p.parallel_dims_only && c_.sums_all_cells;
    if (p.place != Place::tile || untested) continue;
    Condition k = c_.frame.open.condition(*p.constraint, c_.piece);
    int64_t down = 0, up = 0;
    for (size_t u = 0; u < ranging; ++u) {
      // Some lanes are tested as all would be.
      const Expr& size = s.at[u].size;
      int64_t count = size.is_constant() ? size.value() : c_.masked_lanes(IteratorId(u));
      if (count == 0) continue;
      bool some = IteratorId(u) == rows.iterator;
      int64_t factor = k.form.coefficient(u).num();
      int64_t first = factor * (some ? rows.first : 0);
      int64_t last = factor * ((some ? rows.first + rows.count : count) - 1);
      down += std::min(first, last);
      up += std::max(first, last);
    }
    std::vector<Expr> more =
        conditions(k, [&](const Affine& form) { return values_.value_of(form, s); }, down, up);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

// The whole tile, then the tiles without one row and more at an end where some may be missing.
// Valid rows are neighbours, so that where the rows of one of these are all valid and those of
// the ones before it are not, no other row is.
std::vector<TileRows> Borders::shortened(const State& s) const {
  std::vector<TileRows> all{TileRows{}};
  for (const Loop& l : c_.schedule.tile) {
    if (l.binding != Binding::unroll || l.step != 1) continue;
    const Expr& size = s.at[l.iterator].size;
    auto [below, above] = missing_rows(l.iterator);
    if (!size.is_constant() || !alone_in_conditions(l.iterator)) continue;
    int64_t rows = size.value();
    for (int64_t n = 1; n <= std::min({below, kMostMissing, rows - 1}); ++n) {
      all.push_back({l.iterator, n, rows - n});
    }
    for (int64_t n = 1; n <= std::min({above, kMostMissing, rows - 1}); ++n) {
      all.push_back({l.iterator, 0, rows - n});
    }
  }
  return all;
}

// No condition of the tile names this one of its iterators together with another: a row has all of
// its points or none.
bool Borders::alone_in_conditions(IteratorId iterator) const {
  auto named = [&](const Constraint& c, IteratorId u) { return !c.form.coefficient(u).is_zero(); };
  return std::none_of(c_.constraints.begin(), c_.constraints.end(), [&](const PlacedConstraint& p) {
    return p.place == Place::tile && named(*p.constraint, iterator) &&
           std::any_of(c_.schedule.tile.begin(), c_.schedule.tile.end(), [&](const Loop& l) {
             return l.iterator != iterator && named(*p.constraint, l.iterator);
           });
  });
}

// How many of a parallel dimension's first and last values may have no point with some values of
// the reductions.
Borders::Missing Borders::missing_rows(IteratorId iterator) const {
  Missing most;
  for (const PlacedConstraint& p : c_.constraints) {
    if (p.place != Place::tile) continue;
    Constraint k = integral(*p.constraint);
    int64_t factor = k.form.coefficient(iterator).num();
    if (factor == 0) continue;
    int64_t least = k.form.constant.num(), greatest = least;
    for (size_t u = 0; u < c_.piece.box.size(); ++u) {
      int64_t reach = k.form.coefficient(u).num() * std::max<int64_t>(c_.piece.box[u] - 1, 0);
      (reach < 0 ? least : greatest) += reach;
    }
    int64_t low = ceil_div(std::max<int64_t>(0, k.lo - least), std::abs(factor));
    int64_t high = ceil_div(std::max<int64_t>(0, greatest - k.hi + 1), std::abs(factor));
    most.below = std::max(most.below, factor > 0 ? low : high);
    most.above = std::max(most.above, factor > 0 ? high : low);
  }
  return most;
}

}  // namespace tile::lowering
