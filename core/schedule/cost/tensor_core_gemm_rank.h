// The analytic model of products on tensor cores.
#pragma once

#include <vector>

#include "core/kernel/forms/tensor_core_gemm.h"

namespace tile::tensor_cores {

struct Ranked {
  double nanoseconds = 0;
  TensorCoreGemm schedule;
};
// Best first by the model; never empty.
std::vector<Ranked> ranked_tiles(const Product& product, const Piece& piece, const Kernel& kernel,
                                 const Target& target);

}  // namespace tile::tensor_cores
