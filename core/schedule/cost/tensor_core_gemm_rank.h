// The analytic model of products on tensor cores.
#pragma once

#include <vector>

#include "core/kernel/forms/tensor_core_gemm.h"
#include "core/schedule/cost/piece/cost_term.h"

namespace tile::tensor_cores {

struct Ranked {
  double nanoseconds = 0;
  TensorCoreGemm schedule;
};
// Best first by the model; never empty.
std::vector<Ranked> ranked_tiles(const Product& product, const Piece& piece, const Kernel& kernel,
                                 const Target& target);

// The nanoseconds by which ranked_tiles() ranks this schedule of the product. The parts are added
// to `into`, if it is given.
double estimate_gemm(const TensorCoreGemm& schedule, const Product& product, const Piece& piece,
                     const Kernel& kernel, const Target& target, CostTerm* into = nullptr);

}  // namespace tile::tensor_cores
