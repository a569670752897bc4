// The cycles of registers that hold matrices.
#pragma once

#include "core/kernel/forms/amx_tiles.h"
#include "core/schedule/cost/piece/tile_cycles.h"
#include "core/schedule/facts/piece_facts.h"

namespace tile {

// Of a schedule that uses such registers. What is given must outlive it.
class AmxCycles {
 public:
  AmxCycles(const PieceFacts& facts, const PieceSchedule& schedule)
      : f_(facts), s_(schedule), sizes_(tile_sizes(schedule, facts.piece)) {}

  // Of the whole piece. `into`, if given, gets the parts.
  double total(CostTerm* into) const;

 private:
  int64_t block_of(IteratorId iterator) const;
  TileCycles block(int64_t m, int64_t n, double steps) const;

  const PieceFacts& f_;
  const PieceSchedule& s_;
  const TileSizes sizes_;
};

}  // namespace tile
