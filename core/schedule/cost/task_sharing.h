// Pieces of one stage whose threads' tasks are the same cells of a parallel dimension, and what it
// costs where they are not.
#pragma once

#include <vector>

#include "core/kernel/schedule.h"

namespace tile {

// The blocks that are the threads' tasks, if one loop alone gives them; else null.
const Loop* task_loop(const PieceSchedule& schedule);
// Whether the first loop of both pieces gives threads the same blocks of one parallel dimension,
// and no other loop does. The pieces name their iterators alike.
bool share_tasks(const PieceSchedule& a, const PieceSchedule& b, const Piece& first,
                 const Piece& second);

// What it costs that a later piece of a stage is done apart from the first one's tasks: lines of
// the results that another thread has written.
double apart_ns(const Contraction& c, size_t piece, const std::vector<PieceSchedule>& schedules,
                const Target& target);

}  // namespace tile
