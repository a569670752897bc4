// The interior test of a tile region: linear forms that are >= 0 wherever no guard of the region
// fails, every vector loop runs full, and index expressions take their way of the middle.
#pragma once

#include <vector>

#include "core/nest/passes/loop_context.h"

namespace tile::nest {

struct VersioningConditions {
  std::vector<Expr> open;  // what the ranges do not decide; empty: one body is enough
  bool spares = false;     // whether the interior spares more than one guard for each thread
};

// Of a region whose statements these are, in the variables outside of it.
VersioningConditions versioning_conditions(const Block& statements, LoopContext& at);

// Where `fact` is >= 0, so is `e`: they are equal, or differ by a constant.
bool implies(const Expr& fact, const Expr& e);

}  // namespace tile::nest
