// A loop on the CPU in blocks of space and time (core/schedule/cost/time_tiles.h): where its step
// is one kernel, and the model finds that faster than step after step.
#pragma once

#include <span>

#include "core/schedule/cost/time_tiles.h"
#include "runtime/engine/executable.h"

namespace tile {

// Of a step whose launches have no code yet: the blocks, and as schedule of its kernel the one that
// they are for. nullopt: its trips are run one by one.
std::optional<TimeTiles> choose_time_tiles(Executable& step, int64_t trips);

// Whether the loop's code can be run so: for loops that come from a record.
bool takes_tiles(const StepLoop& loop, const TimeTiles& tiles);

// The loop's trips. `tensors`: the operands, the state first, then the result; `other`: as much
// memory as the result. Trips alternate between them, the last one writes the result.
void run_tiled(const StepLoop& loop, std::span<void* const> tensors, void* other,
               const RunOptions& options);

}  // namespace tile
