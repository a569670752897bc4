// Printed kernels, compiled for the host with tests/cuda/emulation.h and run by its machine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/source.h"
#include "core/ir/scalar.h"
#include "core/nest/nest.h"

namespace tile::test {

// Sources compiled together into one shared object.
class Emulated {
 public:
  // Throws InternalError with the compiler's output when a text does not compile.
  explicit Emulated(const std::vector<cuda::CudaSource>& sources);
  ~Emulated();
  Emulated(const Emulated&) = delete;
  Emulated& operator=(const Emulated&) = delete;

  // Launches the kernels of source number `index`; written arguments are updated in place. Throws
  // InternalError for accesses that no barrier orders and for what else machine.h refuses.
  void run(size_t index, const nest::Nest& nest, const std::vector<HostTensor*>& arguments,
           const std::vector<int64_t>& parameters = {}) const;

 private:
  void launch(const std::string& name, const cuda::CudaKernel& kernel, int64_t grid,
              const std::vector<void*>& values) const;

  std::vector<cuda::CudaSource> sources_;
  void* library_ = nullptr;
  std::string folder_;
};

}  // namespace tile::test
