// The valid points of a piece (rule 4.1), by brute force: a smallest set of conditions that
// determines the unknowns is chosen, every combination of values that those conditions allow is
// solved for the unknowns, and every other condition is tested.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core/ir/bound.h"

namespace tile {

// Counts candidate points and stops a run that goes past its limit or is cancelled.
class WorkMeter {
 public:
  WorkMeter(int64_t limit, const std::function<bool()>& cancelled)
      : limit_(limit), cancelled_(cancelled) {}
  // Throws Failure: `limit` of stage compile, `cancelled` of stage run.
  void visit(Span where) {
    if ((++visited_ & kPollMask) == 0 || visited_ > limit_) poll(where);
  }

 private:
  static constexpr int64_t kPollMask = (1 << 14) - 1;
  void poll(Span where) const;
  int64_t limit_;
  const std::function<bool()>& cancelled_;
  int64_t visited_ = 0;
};

// Calls `visit` with the unknowns of each valid point. Index values (gather) are not tested here.
void for_each_point(const BoundProgram& program, const Piece& piece, Span where, WorkMeter& meter,
                    const std::function<void(std::span<const int64_t>)>& visit);

}  // namespace tile
