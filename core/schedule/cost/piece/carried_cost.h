// What a carried reduction costs: scans and sliding windows.
#pragma once

#include "core/schedule/cost/piece/access_cycles.h"
#include "core/schedule/cost/piece/cost_term.h"

namespace tile {

// Of a schedule that carries sums along a parallel dimension. What is given must outlive it.
class CarriedCost {
 public:
  CarriedCost(const PieceFacts& facts, const PieceSchedule& schedule)
      : f_(facts), s_(schedule), shape_(facts, schedule), access_(facts) {}

  // Nanoseconds of one pass over the cells in order. `into`, if given, gets the parts.
  double ns(CostTerm* into) const;

 private:
  double step_cycles(double vectors) const;
  double window_cycles(double vectors) const;
  double running_cycles(double vectors) const;
  double far_steps_ns() const;
  double refetch_ns() const;

  const PieceFacts& f_;
  const PieceSchedule& s_;
  const TileShape shape_;
  const AccessCycles access_;
};

}  // namespace tile
