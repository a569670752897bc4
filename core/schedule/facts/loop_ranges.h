// The loops of a piece under a schedule, and what each iterator takes around and inside them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/schedule/facts/access_block.h"

namespace tile {

// The loops of a piece, outermost first, their trips, and the range of every iterator around each
// of them and inside the last. The schedule must outlive it.
class LoopRanges {
 public:
  LoopRanges(const Piece& piece, const PieceSchedule& s);

  size_t count() const { return loops_.size(); }
  const Loop& loop(size_t i) const { return *loops_[i]; }
  double trips(size_t i) const { return trips_[i]; }
  Range at(size_t level) const { return Range(ranges_).subspan(level * iterators_, iterators_); }

 private:
  size_t iterators_;
  std::vector<const Loop*> loops_;
  std::vector<double> trips_;
  std::vector<int64_t> ranges_;
};

}  // namespace tile
