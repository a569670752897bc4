// Sizes and shapes that follow from the loops of a schedule alone, and the simplest schedule.
#pragma once

#include <cstdint>
#include <vector>

#include "core/kernel/schedule.h"

namespace tile {

// One serial loop for each iterator.
PieceSchedule plain_schedule(const Piece& piece);
Schedule plain_schedule(const Kernel& kernel);

// Whether the loops end in tile registers: tile (…, matrix, matrix)  reduce (…, matrix, dot).
bool uses_tiles(const PieceSchedule& schedule);
// Lanes of the vector loop among a piece's reduce loops: the block that it runs over, rounded up to
// a power of two; 1 without one.
int64_t lane_count(const std::vector<Loop>& reduce, const Piece& piece);
// Whether the register tile's last two loops are vector loops: one vector then takes the pairs of
// both iterators, the last one's values side by side for each of the other's.
bool joins_lanes(const PieceSchedule& schedule);
// How many of the register tile's loops, its last ones, run over the carried parallel dimension.
size_t carried_tile_loops(const PieceSchedule& schedule);
// Whether threads take turns along the carried parallel dimension: its first loop is parallel.
bool is_chained(const PieceSchedule& schedule);
// For each loop of the register tile its largest number of iterations (lanes for the vector loop;
// where two are joined, 1 and the lanes of the pairs).
std::vector<int64_t> tile_shape(const PieceSchedule& schedule, const Piece& piece);
// Vector registers that the accumulators of one register tile take.
int64_t vectors_in_tile(const PieceSchedule& schedule, const Piece& piece, DType type,
                        const Target& target);
// An unrolled reduction keeps an accumulator of its own for each iteration while they are few, so
// that additions do not wait for each other: how many, and which loop of `reduce` it is.
int64_t accumulator_copies(const PieceSchedule& schedule, const Piece& piece, const Contraction& c,
                           const Target& target, size_t& loop);

}  // namespace tile
