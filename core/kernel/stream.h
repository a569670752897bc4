// Kernels whose row loops share a loop over blocks of one more axis (KernelStage::stream), for the
// files of this folder.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/kernel/kernel.h"

namespace tile {

bool has_stream(const Kernel& kernel);
// The stage has loops of its own and reduces over the streamed axis.
bool reduces_stream(const KernelStage& stage);
// The stage makes a maximum that later stages read in every block.
bool is_running(const Kernel& kernel, size_t stage);
// The stage's iterator of each shared loop: its rows, then the streamed one. Empty for an attached
// stage.
IdVector<RowId, IteratorId> shared_iterators(const KernelStage& stage);

// How a value changes when the running maximum does.
enum class Scaling : uint8_t {
  none,      // it does not
  maximum,   // it is the maximum, or made of it
  weighted,  // it is a multiple of exp(-maximum)
  unknown,
};
// Of a node of a typed body, from the scaling of what its loads (by slot) read.
Scaling scaling_of(const Body& body, NodeId root, const std::function<Scaling(size_t slot)>& load);

// Empty where the kernel keeps the rules of KernelStage::stream and KernelStage::rescale; else the
// first broken one.
std::string broken_stream(const Kernel& kernel);

// An upper bound of the streamed axis: its values are at most floor((constant + sum of rows[r] *
// begin of the block of row r) / divisor).
struct StreamBound {
  std::vector<int64_t> rows;
  int64_t constant = 0, divisor = 1;
};
// For each stage that reduces over the streamed axis the bounds that its conditions put on it in
// blocks of rows of the given sizes, all of which hold. Empty where a stage has none: all blocks of
// the axis are visited.
std::vector<std::vector<StreamBound>> stream_bounds(const Kernel& kernel,
                                                    const std::vector<int64_t>& blocks);
// The same of lower bounds: values are at least ceil((constant + sum of rows[r] * begin of the
// block of row r) / divisor).
std::vector<std::vector<StreamBound>> stream_begins(const Kernel& kernel,
                                                    const std::vector<int64_t>& blocks);
// The share of the axis's blocks that are visited, on average.
double visited_share(const Kernel& kernel, const std::vector<int64_t>& blocks);

}  // namespace tile
