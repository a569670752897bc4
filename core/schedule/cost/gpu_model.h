// The analytic model of GPU schedules.
#pragma once

#include "core/kernel/schedule.h"

namespace tile::gpu {

// Estimated nanoseconds of one piece.
double estimate_piece(const PieceSchedule& s, const Piece& piece, const Contraction& c,
                      const Kernel& kernel, const Target& target);
// The same of a kernel with row loops whose rows are held in registers.
double estimate_lines(const GpuLines& g, const Kernel& kernel, const Target& target);

}  // namespace tile::gpu
