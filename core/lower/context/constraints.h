// Where the conditions of a domain are enforced, and the expressions that test them.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/lower/context/open_numbers.h"

namespace tile::lowering {

// Where a condition of the domain is enforced.
enum class Place : uint8_t { outer, bound, tile };
struct PlacedConstraint {
  const Constraint* constraint = nullptr;
  Place place = Place::tile;
  IteratorId iterator;             // bound: the reduction whose loop is bounded
  bool parallel_dims_only = true;  // no reduction in it
};

// `streamed`: the kernel has a streamed axis, whose blocks test their points.
std::vector<PlacedConstraint> place_constraints(const Piece& piece, const PieceSchedule& schedule,
                                                bool streamed);
// Expressions that are all >= 0 exactly where lo <= form < hi, leaving out what the box implies.
// With `down` <= 0 <= `up` (in multiples of the whole form): where it holds for form + down … form
// + up.
std::vector<Expr> conditions(const Condition& c, const std::function<Expr(const Affine&)>& value,
                             int64_t down = 0, int64_t up = 0);

}  // namespace tile::lowering
