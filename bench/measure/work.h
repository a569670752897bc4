// How much useful work a program is: the operations of its valid points, and the bytes that must
// move whatever the schedule.
#pragma once

#include "core/ir/bound.h"
#include "core/target/target.h"

namespace tile::bench {

struct Work {
  double points = 0;  // valid points of every contraction (rule 4.1)
  // Per point: the body's operations without casts, those of loops inside it once for each
  // iteration, and the aggregation; of a program that is repeated for each time. 0 where a loop has
  // no constant number of iterations.
  double operations = 0;
  double bytes = 0;     // inputs read once, outputs written once
  double written = 0;   // the outputs' part of it
  bool counted = true;  // false: there were too many points to count; points and operations are 0
};

// Exact: domains are counted after the tensor-level passes, each set of iterators that constraints
// tie together by enumeration of all but one. Where such a set is too large, nothing is counted.
Work work_of(BoundProgram program, const Target& target);

}  // namespace tile::bench
