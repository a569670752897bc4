// The adjoint of an ordered fold inside a contraction's body.
#pragma once

#include <vector>

#include "core/passes/gradient/coordinates.h"
#include "core/passes/gradient/loop_trips.h"

namespace tile {

struct OrderedFold {
  SymbolicContraction around;  // whose body holds the fold, and no fold before it
  std::vector<Coordinate> cells;
  Node fold;
  LoopTrips trips;
  std::vector<int> components;  // the carried values that have adjoints: floats of one type
};

// `adjoint`: of those components of the fold, over the cells. The states before each trip become a
// tensor, in which each is computed from the start (the trips run by prefixes), and so do the
// adjoints of these states, each computed from the last trip back; an iteration's derivative is
// that of one step at a stored state.
void differentiate_ordered_fold(Derivation& derivation, const Statement& statement,
                                const OrderedFold& fold, TensorId adjoint);

}  // namespace tile
