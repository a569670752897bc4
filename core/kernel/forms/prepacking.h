// Copies of inputs whose elements never change: what a schedule packs of them is the same in every
// run, so that it is packed once, before all runs, and the packed tensor is an argument of the
// kernel.
#pragma once

#include <optional>
#include <vector>

#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/target/target.h"

namespace tile {

// Whether the tensor has the same elements in every run: an input declared constant, or a view of
// one.
bool is_fixed(const BoundTensors& tensors, TensorId id);

// Of a packing that may be made before all runs: the packing of the whole tensor, at level 0, which
// holds all blocks in the order in which the loops around them come to them. nullopt: each run
// packs, because the elements change, the kernel has row loops, or windows would make the copy many
// times as large as the tensor.
std::optional<Packing> packed_once(const Packing& packing, const PieceSchedule& schedule,
                                   const Piece& piece, const Kernel& kernel, const Target& target);

// Extents of a packed block's dimensions where each iterator has `range` values; of tiles, terms
// that zeros fill up count.
std::vector<int64_t> packed_shape(const Packing& packing, const PieceSchedule& schedule,
                                  const Piece& piece, const IterationBox& range);

// The type of a packed element: the tensor's own, or a dot's neighbours together.
DType packed_type(const Packing& packing, const PieceSchedule& schedule, const Piece& piece,
                  const BoundTensors& tensors);

// A packing of a kernel that is made once; `packing` as packed_once() gives it.
struct PrepackedPacking {
  size_t stage = 0, piece = 0;
  Packing packing;
};
// All of them, in the order of the arguments that they are.
std::vector<PrepackedPacking> prepacked_packings(const Kernel& kernel, const Schedule& schedule,
                                                 const Target& target);

}  // namespace tile
