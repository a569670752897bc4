// Copies of rows between tensors and parts in a GPU's memory.
#pragma once

#include "backends/cuda/driver/session.h"
#include "backends/rank_device.h"

namespace tile::cuda {

// Gives the stream the copy. The device's context is current. Throws Failure (run, "cuda").
void copy_rows(Session& session, const RowCopy& copy, CUstream stream);

}  // namespace tile::cuda
