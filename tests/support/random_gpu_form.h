// Random GPU forms of a piece.
#pragma once

#include <cstdint>
#include <optional>

#include "core/kernel/schedule.h"

namespace tile {

// Legal or not; nullopt: loops.
std::optional<PieceSchedule> random_gpu_form(const Piece& piece, const Contraction& c,
                                             const Kernel& kernel, uint64_t seed);

}  // namespace tile
