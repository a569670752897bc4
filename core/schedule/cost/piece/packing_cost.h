// What copies of operands cost to make.
#pragma once

#include "core/schedule/cost/piece/cost_term.h"
#include "core/schedule/facts/piece_facts.h"

namespace tile {

// Nanoseconds of all copies of a schedule that are made in each run. `into`, if given, gets a part
// for each.
double packing_ns(const PieceFacts& facts, const PieceSchedule& schedule, CostTerm* into = nullptr);

}  // namespace tile
