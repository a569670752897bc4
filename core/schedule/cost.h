// The analytic model's parts, and sizes of a piece's loops, for the files of this folder.
#pragma once

#include "core/schedule/kernel.h"
#include "core/schedule/schedule.h"

namespace tile {

// Work below this is not worth a thread.
constexpr double kChunkNanoseconds = 10000;

// One serial loop for each unknown.
PieceSchedule plain_schedule(const Piece& piece);
Schedule plain_schedule(const Kernel& kernel);

// Estimated nanoseconds of one piece on one core.
double piece_nanoseconds(const Piece& piece, const Contraction& c, const Kernel& kernel,
                         const PieceSchedule& schedule, const Target& target);

// Lanes of the vector loop among a piece's reduce loops: the block that it runs over, rounded up to
// a power of two; 1 without one.
int64_t lane_count(const std::vector<Loop>& reduce, const Piece& piece);
// For each loop of the register tile its largest number of iterations (lanes for the vector loop).
std::vector<int64_t> tile_shape(const PieceSchedule& schedule, const Piece& piece);
// Vector registers that the accumulators of one register tile take.
int64_t vectors_in_tile(const PieceSchedule& schedule, const Piece& piece, DType type,
                        const Target& target);
// An unrolled reduction keeps an accumulator of its own for each iteration while they are few, so
// that additions do not wait for each other: how many, and which loop of `reduce` it is.
int64_t accumulator_copies(const PieceSchedule& schedule, const Piece& piece, const Contraction& c,
                           const Target& target, size_t& loop);

}  // namespace tile
