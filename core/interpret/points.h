// The valid points of a piece (rule 4.1), by brute force: a smallest set of conditions that
// determines the iterators is chosen, every combination of values that those conditions allow is
// solved for the iterators, and every other condition is tested.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <span>

#include "core/ir/bound.h"
#include "core/support/control.h"

namespace tile {

// Counts candidate points and stops a run that goes past its limit or is over.
class WorkMeter {
 public:
  explicit WorkMeter(int64_t limit) : limit_(limit) {}
  // What a visit takes from now on, in nodes of a body.
  void weigh(size_t nodes) {
    weight_ = static_cast<int>(std::clamp<size_t>(nodes / kNodesOfStep, 1, kMostSteps));
  }
  // Throws Failure: `limit` of stage compile, or this thread's control's.
  void visit(Span where) {
    if (++visited_ > limit_) fail_visits(where);
    checkpoint_for(weight_);
  }

 private:
  static constexpr size_t kNodesOfStep = 4, kMostSteps = 1024;
  [[noreturn]] void fail_visits(Span where) const;
  int64_t limit_;
  int64_t visited_ = 0;
  int weight_ = 1;
};

// Calls `visit` with the iterators of each valid point. Index values (gather) are not tested here.
void for_each_point(const BoundProgram& program, const Piece& piece, Span where, WorkMeter& meter,
                    const std::function<void(std::span<const int64_t>)>& visit);

}  // namespace tile
