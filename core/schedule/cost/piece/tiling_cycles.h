// The cycles of all register tiles of a piece under a schedule.
#pragma once

#include "core/schedule/cost/piece/border_tests.h"
#include "core/schedule/cost/piece/register_tile_cycles.h"

namespace tile {

// What is given must outlive it. Not for schedules of registers that hold matrices (amx_cycles.h).
// Functions that are given a term add the parts of the time that they return to it.
class TilingCycles {
 public:
  TilingCycles(const PieceFacts& facts, const PieceSchedule& schedule);
  TilingCycles(const TilingCycles&) = delete;  // the parts name each other
  TilingCycles& operator=(const TilingCycles&) = delete;

  double total(CostTerm* into) const;
  // Of that, between two blocks of a reduction: sums leave the registers and others come, and
  // meanwhile no operand is asked for.
  double resuming() const;

 private:
  // All tiles that do so many steps in each block of the reduction. `taps`: whether rows share what
  // their windows overlap in; `share`: the part of all tiles that are so.
  struct TileRun {
    double steps = 1, tiles = 1;
    bool taps = true;
    double share = 1;
  };
  double reduction_steps() const;
  double of_steps(double steps, CostTerm* into) const;
  double all_tiles(const TileRun& run, CostTerm* into) const;

  const PieceFacts& f_;
  const PieceSchedule& s_;
  const TileShape shape_;
  const RegisterTileCycles tile_;
  const BorderTests borders_;
  const double reduction_blocks_;  // of every reduction that is cut: the sums wait
};

}  // namespace tile
