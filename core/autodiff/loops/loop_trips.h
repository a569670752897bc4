// How often a fold of a contraction's body runs, as far as the text says.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/autodiff/derivation/derivation.h"

namespace tile {

// The fold's counter is begin + t for 0 <= t < length; an index t in [0, most) meets every trip.
struct LoopTrips {
  Expr most;                   // free of indices
  bool exact = false;          // length is `most` everywhere
  std::optional<Expr> length;  // affine in the indices; may be negative
  // Neither: which t are trips is decided in the body.
  bool by_value() const { return !exact && !length; }
};

// Throws Failure (bind) where nothing bounds the number of trips.
LoopTrips trips_of(const Derivation& derivation, const SymbolicContraction& contraction,
                   const Node& fold);

// An index of the contraction for t, moved up by `shift`: its slot.
size_t add_trip_index(SymbolicContraction& contraction, const LoopTrips& trips, int shift,
                      Span span);

// Values of `to`, copied from the body `from` around the fold: the counter at index number `slot`,
// and whether it is before the fold's end.
NodeId trip_counter(Body& to, const Body& from, const Node& fold, size_t slot, int shift);
NodeId trip_condition(Body& to, const Body& from, const Node& fold, NodeId counter);

// The carried values of each type, in order.
std::map<DType, std::vector<size_t>> components_by_type(const Body& body, const Node& fold);

}  // namespace tile
