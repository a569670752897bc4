// What one warp asks of the caches while its threads reduce: neighbouring threads take neighbouring
// cells or neighbouring terms, and what they read together decides how much of each line is used.
#pragma once

#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/target/target.h"

namespace tile::gpu {

// Of all loads, for one turn of each thread of a warp (one term, or a vector of them).
struct WarpReads {
  double lines = 0;    // of 128 bytes: what the first cache gives one in a clock
  double sectors = 0;  // of 32 bytes that come from the second cache; less than one where the next
                       // turns find the rest of a sector in the first
};

// Dense tensors. Indices that depend on values are taken for neighbours.
WarpReads warp_reads(const GpuReduction& schedule, const Piece& piece, const Kernel& kernel,
                     const Target& target);

}  // namespace tile::gpu
