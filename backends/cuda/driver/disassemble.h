// Machine code as text, by NVIDIA's tools.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tile::cuda {

// Of a cubin, by cuobjdump or else nvdisasm on the PATH, in CUDA_PATH, CUDA_HOME or
// /usr/local/cuda. Throws Failure (compile, "sass") where there is neither or it fails.
std::string disassemble(std::span<const std::byte> cubin);

}  // namespace tile::cuda
