// Stands for driver/ in builds without the CUDA headers.
#include "backends/cuda/cuda_backend.h"

#include "core/support/diagnostic.h"

namespace tile::cuda {

std::shared_ptr<Backend> shared_backend(int) {
  fail(Stage::compile, "backend", {}, "this build has no cuda backend",
       "build where the CUDA headers are found, or use cpu or reference");
}

int gpu_count() { return 0; }

std::unique_ptr<RankDevice> rank_device(DeviceSession&) {
  internal_check(false, "a session without a device");
  return nullptr;
}

}  // namespace tile::cuda
