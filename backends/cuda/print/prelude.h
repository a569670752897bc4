// Device functions that printed kernels call: types, conversions and the table's operations.
#pragma once

#include <string_view>

namespace tile::cuda {

// Include-free CUDA C++. Where TILE_HOST_EMULATION is defined, the includer declares what NVRTC
// builds in, and the conversions that are PTX here.
std::string_view prelude();
// What kernels of clusters need beside it.
std::string_view cluster_prelude();
std::string_view copy_prelude();  // of asynchronous stores

}  // namespace tile::cuda
