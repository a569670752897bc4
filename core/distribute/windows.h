// Windows: what each rank keeps of a tensor that one contraction reads. Accesses share one where
// their common hull has no more cells than they have apart.
#pragma once

#include <cstdint>
#include <vector>

#include "core/distribute/needs.h"
#include "core/ir/bound.h"

namespace tile {

struct Window {
  TensorId tensor;
  std::vector<Box> boxes;                // of each rank, in the numbers of Need
  std::vector<std::vector<Box>> needed;  // of each rank: boxes that share no cell
  bool wraps = false;                    // some rank's goes past an end

  // Whether two accesses of one rank can read one window: past an end lie the elements of the other
  // one or what a boundary rule gives.
  std::vector<std::vector<Reach>> reach;  // of each rank and dimension
};

// The windows of one contraction, and for each piece and load which it reads.
struct Windows {
  std::vector<Window> all;
  std::vector<std::vector<size_t>> of_load;  // [piece][load]
};

// `needs`: of each rank and piece.
Windows windows_of(const Contraction& c, const std::vector<std::vector<PieceNeeds>>& needs,
                   const BoundTensors& tensors);

}  // namespace tile
