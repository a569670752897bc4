// The CUDA backend: Nest -> CUDA C++ -> NVRTC -> driver.
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/rank_device.h"

namespace tile::cuda {

// One backend for the process and the GPU numbered `ordinal`, made on first use and kept as long as
// anyone holds it.
// Works without a GPU for compile, emit and target_named; what needs a device throws Failure (run).
// Throws Failure (compile, "backend") where this build has no CUDA backend.
std::shared_ptr<Backend> shared_backend(int ordinal);
// Of this process; 0 where there is no driver.
int gpu_count();
// For a rank whose engine has this session.
std::unique_ptr<RankDevice> rank_device(DeviceSession& session);

}  // namespace tile::cuda
