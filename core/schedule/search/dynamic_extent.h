// Kernels for classes of sizes: the extent of a batch, or of the rows of a large product, stays a
// parameter of the nest, so that another size needs no other code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"

namespace tile {

// The extent of dimension 0 of some tensors, which each launch gives.
struct DynamicExtent {
  std::vector<TensorId> tensors;
  int64_t most = 0;  // it is in [1, most]
};

// A kernel in which that extent is a typical one of its class of sizes: all sizes of a class get
// the same kernel, and with it the same schedule and code.
struct ClassKernel {
  Kernel kernel;
  DynamicExtent extent;
  int64_t size = 0;  // the extent at hand
};

// Chosen from the accesses alone: dimension 0 of every result is walked by one parallel dimension,
// which walks dimension 0 of the tensors that it is in and nothing else; so strides do not depend
// on its extent. nullopt where there is no such parallel dimension, or too little work to share its
// code.
std::optional<ClassKernel> for_class_of_sizes(const Kernel& kernel, const Target& target);

// The iterator of the piece that walks the dimension.
IteratorId walking_iterator(const Piece& piece);

// Whether the class's nest under this schedule serves all its sizes well: no buffer grows with the
// extent, no vector runs along it, and blocks of it are small beside it, or it is itself small.
bool suits_class(const Schedule& schedule, const ClassKernel& kernel);

// The model's choice for all sizes of the class, the same whichever of them is at hand: one
// schedule, two where none is good for all, none where two are not either.
std::vector<Schedule> class_schedules(const ClassKernel& kernel, const Target& target);
// Which of those is best for the size at hand.
const Schedule& best_for_size(const std::vector<Schedule>& choices, const ClassKernel& kernel,
                              const Target& target);

// The sizes of the blocks with code of their own in which what is left of a block of `step` is
// done, largest first, when `typical` is the extent as a rule: each at most once.
std::vector<int64_t> short_blocks(int64_t step, int64_t typical);

}  // namespace tile
