// The space of GPU schedules of a piece: threads over the cells, reductions shared by a block's
// threads, tiles of products; of kernels whose rows are held in registers.
#pragma once

#include <cstddef>
#include <vector>

#include "core/kernel/schedule.h"

namespace tile::gpu {

// Schedules of one piece, best first by the model of this folder; never empty.
std::vector<PieceSchedule> piece_schedules(const Piece& piece, const Contraction& c,
                                           const Kernel& kernel, const Target& target);
// Of whole kernels, as candidates().
std::vector<Schedule> candidate_schedules(const Kernel& kernel, const Target& target, size_t limit);
// Legal schedules of a kernel with row loops, best first; empty where it has none.
std::vector<Schedule> line_schedules(const Kernel& kernel, const Target& target);
// The same of a kernel with a streamed axis.
std::vector<Schedule> stream_schedules(const Kernel& kernel, const Target& target);

}  // namespace tile::gpu
