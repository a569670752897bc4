// Pieces of one stage whose threads' tasks are the same cells of an owner: lowered, they are one
// parallel loop, so that a thread writes neighbouring cells of all pieces.
#pragma once

#include <vector>

#include "core/schedule/space.h"

namespace tile {

// Whether the first loop of both pieces gives threads the same blocks of one owner, and no other
// loop does. The pieces name their unknowns alike.
bool share_tasks(const PieceSchedule& a, const PieceSchedule& b, const Piece& first,
                 const Piece& second);

// What it costs that a later piece of a stage is done apart from the first one's tasks: lines of
// the results that another thread has written.
double apart_ns(const Contraction& c, size_t piece, const std::vector<PieceSchedule>& schedules,
                const Target& target);

// Schedules of a stage of several pieces, with their cost.
struct RankedStage {
  double nanoseconds = 0;
  std::vector<PieceSchedule> pieces;
};
// For each choice of the first piece whose tasks are blocks of one owner: the other pieces' best
// choices in those tasks. Best first by the model.
std::vector<RankedStage> choices_with_common_tasks(
    const Kernel& kernel, size_t stage, const std::vector<std::vector<RankedPiece>>& ranked,
    const Target& target);

}  // namespace tile
