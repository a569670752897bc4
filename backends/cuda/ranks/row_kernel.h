// Copies of rows by a kernel. What a driver's copy on one GPU becomes in a graph is a kernel, too,
// but without its stream's priority: it comes behind all blocks of what runs beside it.
#pragma once

#include <memory>

#include "backends/cuda/driver/code.h"
#include "backends/rank_device.h"

namespace tile::cuda {

class RowKernel {
 public:
  // Compiles it. Throws Failure.
  explicit RowKernel(const std::shared_ptr<const Device>& device);

  // Gives the stream the copy. What it is recorded in must not outlive this. Throws Failure (run).
  void copy(Session& session, const RowCopy& copy, CUstream stream) const;

 private:
  CudaCode code_;
};

}  // namespace tile::cuda
