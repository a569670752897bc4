// The cycles of one register tile, part by part, and the terms that they make.
#pragma once

#include <string>

#include "core/schedule/cost/piece/cost_term.h"

namespace tile {

// Of one register tile, and how they add up to `total`.
struct TileCycles {
  double vectors = 1;
  double steps = 1;  // of the reduction
  // Of one step: the largest of the first three, and what two of them do not hide.
  double arithmetic = 0, loads = 0, issue = 0, in_turns = 0;
  double rounds = 0, latency = 0;  // at least: folds, or multiply-adds, that wait for each other
  double loop = 0;
  double step = 0;                   // all of that
  double stores = 0, scattered = 0;  // vectors of neighbours; lanes that memory has apart
  double finish = 0;                 // of the sums, before they are stored
  double start = 0, lanes = 0;       // entering and leaving the tile; adding up lanes
  bool beside = false;               // the next tile's steps begin beside this one's ends
  double total = 0;
};

// The parts of tiles that take `scale` nanoseconds a cycle together; `reduces`: the tiles hold
// sums.
CostTerm tile_term(const TileCycles& c, bool reduces, std::string name, double scale);

}  // namespace tile
