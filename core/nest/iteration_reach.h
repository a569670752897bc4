// How far the iterations of a parallel loop reach into each other's results, where what a nest
// makes is what it reads the next time: which of them a blocking in time keeps in order.
#pragma once

#include <optional>

#include "core/nest/nest.h"

namespace tile::nest {

struct IterationReach {
  int64_t iterations = 0;  // of the parallel loop
  // Iteration i reads cells of `state` in places where iterations i - reach … i + reach store
  // `result`; at least what it really does.
  int64_t reach = 0;
};

// Of a nest that is one parallel loop, whose iterations store `result` in disjoint blocks along one
// of its dimensions, in order, and no other argument. `state` is an argument of the same shape that
// it only reads. nullopt: it is no such nest, or that is not seen (indices that data decides, loops
// within elements, parameters, too many iterations to look at).
std::optional<IterationReach> iteration_reach(const Nest& nest, BufferId state, BufferId result);

}  // namespace tile::nest
