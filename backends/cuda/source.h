// CUDA C++ text of a nest, and what a launch must know of its kernels. Needs neither a GPU nor the
// CUDA headers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/dtype.h"
#include "core/nest/nest.h"
#include "core/simplify/expr.h"
#include "core/target/target.h"

namespace tile::cuda {

// A tensor map (CUtensorMap) of one argument, encoded at launch for the argument's address and
// passed as `__grid_constant__ const`. Sizes, strides and box are innermost dimension first;
// elements outside the sizes read as zero.
struct TensorMap {
  size_t argument = 0;  // position among the nest's arguments
  DType type = DType::f32;
  std::vector<uint64_t> sizes;            // in elements, rank <= 5
  std::vector<uint64_t> strides_bytes;    // of dimensions 1…, multiples of 16
  std::vector<uint32_t> box;              // in elements, each <= 256
  std::vector<uint32_t> element_strides;  // steps inside the box; empty: all 1
  int swizzle_bytes = 0;                  // 0, 32, 64 or 128
  bool tf32 = false;                      // of f32: rounds what it reads to tf32
  int l2_promotion = 256;  // bytes that the L2 cache fetches at a time: 0, 64, 128 or 256
};

// One kernel of the text. It takes a pointer for each argument of the nest in order, the
// workspace's pointer, each parameter of the nest as `long long`, and then its tensor maps.
struct CudaKernel {
  std::string name;          // extern "C"
  Expr grid;                 // blocks, over the nest's parameters; zero or less: not launched
  int block = 1;             // threads
  size_t shared_bytes = 0;   // dynamic shared memory
  std::vector<int> cluster;  // up to three extents; empty: no clusters
  std::vector<TensorMap> maps;
  // The second and third dimension of the grid and of its blocks.
  std::array<int, 2> grid_yz{1, 1}, block_yz{1, 1};
};

struct CudaSource {
  std::string text;                 // include-free, no identifiers of the user
  std::vector<CudaKernel> kernels;  // launched in this order
  size_t workspace_bytes = 0;
};

// Throws Failure (compile) for a nest that the target cannot run.
CudaSource print_cuda(const nest::Nest& nest, const Target& target);

}  // namespace tile::cuda
