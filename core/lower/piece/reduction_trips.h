// Which trips of a loop over a reduction have points of a tile: conditions between the tile's cells
// and the reduction leave out trips at both ends, and need no test in the middle.
#pragma once

#include <optional>

#include "core/lower/context/piece_values.h"

namespace tile::lowering {

// Trips in [begin, end) may have points, those in [whole_begin, whole_end) have all points of the
// tile; begin <= whole_begin <= whole_end <= end wherever begin <= end.
struct Trips {
  Expr begin, whole_begin, whole_end, end;
  bool starts_whole = true, ends_whole = true;  // nothing is before the middle, or behind it
  bool has_whole = true;                        // else no trip is known to have all points
};

class ReductionTrips {
 public:
  ReductionTrips(const PieceContext& context, const PieceValues& values)
      : c_(context), values_(values) {}

  // Of the loop number `reduce` outside which the state is, in `count` trips of whole blocks;
  // nullopt: no condition leaves out a trip, or too few for it to be worth the code.
  std::optional<Trips> trips(size_t reduce, const State& s, const Expr& count) const;

 private:
  struct Bounds;
  void bound(const PlacedConstraint& p, const Loop& l, const State& s, Bounds& bounds) const;
  bool decides_all(IteratorId iterator) const;

  const PieceContext& c_;
  const PieceValues& values_;
};

}  // namespace tile::lowering
