// Pieces of one stage whose threads' tasks are the same cells of a parallel dimension: lowered,
// they are one parallel loop, so that a thread writes neighbouring cells of all pieces.
#pragma once

#include <vector>

#include "core/schedule/space/piece/piece_space.h"

namespace tile {

// Schedules of a stage of several pieces, with their cost.
struct RankedStage {
  double nanoseconds = 0;
  std::vector<PieceSchedule> pieces;
};
// For each choice of the first piece whose tasks are blocks of one parallel dimension: the other
// pieces' best choices in those tasks. Best first by the model.
std::vector<RankedStage> choices_with_shared_parallel_loops(
    const Kernel& kernel, size_t stage, const std::vector<std::vector<RankedPiece>>& ranked,
    const Target& target);

}  // namespace tile
