// The adjoint of an ordered fold inside a contraction's body.
#pragma once

#include <vector>

#include "core/autodiff/derivation/coordinates.h"
#include "core/autodiff/loops/loop_trips.h"

namespace tile {

struct OrderedFold {
  SymbolicContraction around;  // whose body holds the fold, and no fold before it
  std::vector<Coordinate> cells;
  Node fold;
  LoopTrips trips;
  std::vector<size_t> components;  // the carried values that have adjoints: floats of one type
};

// `adjoint`: of those components of the fold, over the cells. The states before each trip become a
// tensor, in which each is computed from the start of its block of trips, whose own start is one in
// a tensor of blocks; and so do the adjoints of these states, from the last trip back. The
// derivative is that of one step at each stored state.
void differentiate_ordered_fold(Derivation& derivation, const Statement& statement,
                                const OrderedFold& fold, TensorId adjoint);

}  // namespace tile
