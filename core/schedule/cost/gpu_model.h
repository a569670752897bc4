// The analytic model of GPU schedules.
#pragma once

#include "core/kernel/schedule.h"
#include "core/schedule/cost/piece/cost_term.h"

namespace tile::gpu {

struct LineForm;

// Estimated nanoseconds of one piece. The parts are added to `into`, if it is given.
double estimate_piece(const PieceSchedule& s, const Piece& piece, const Contraction& c,
                      const Kernel& kernel, const Target& target, CostTerm* into = nullptr);
// The same of a kernel with row loops whose rows are held in registers.
double estimate_lines(const GpuLines& g, const Kernel& kernel, const Target& target,
                      CostTerm* into = nullptr);
// The same of a kernel whose form is known.
double estimate_lines(const GpuLines& g, const LineForm& form, const Kernel& kernel,
                      const Target& target, CostTerm* into = nullptr);
// The same of a kernel with a streamed axis.
double estimate_stream(const GpuStream& g, const Kernel& kernel, const Target& target,
                       CostTerm* into = nullptr);
// Constants marked [H200] here and in the other GPU models were chosen so that estimates agree with
// the times of `tile-bench run` (bench/workloads) on an H200. They are shares, counts and
// instructions; times and rates of a part are the Target's.
constexpr double kMemoryShare = 0.9;  // [H200] of a data sheet's bandwidth, what kernels reach
constexpr double kSectorBytes = 32;   // what memory moves at least (CUDA C++ Programming Guide)

}  // namespace tile::gpu
