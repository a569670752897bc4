// The model of kernels with row loops.
#pragma once

#include <vector>

#include "core/kernel/schedule.h"
#include "core/schedule/cost/piece/cost_term.h"

namespace tile {

// Whether the tensor is an argument of the kernel.
bool is_global(const Kernel& kernel, TensorId id);
// The extents of the kernel's rows, and last of its streamed axis if there is one.
std::vector<int64_t> row_extents(const Kernel& kernel);

// The model of a kernel with row loops whose blocks have the given sizes.
class RowModel {
 public:
  RowModel(const Kernel& kernel, const Target& target, std::vector<int64_t> blocks);

  const Kernel& block() const { return block_; }
  // Of the stages' schedules for one block, on one core. `into`, if given, has the terms of the
  // stages as its parts and becomes that of all blocks.
  double serial_ns(const std::vector<double>& stages, CostTerm* into = nullptr) const;

 private:
  double attached() const;
  // What comes from memory for one block: each global tensor once. Of what rows name, each thread
  // has its own rows' part in its second cache.
  double cold_block(const Kernel& kernel) const;
  // What the stages before a stage have touched of a block is still in the second cache only if all
  // that the stages touch fits there; each stage's own model knows of its own data alone.
  double read_again() const;

  const Target& target_;
  std::vector<int64_t> blocks_;
  Kernel block_;
  double count_ = 1;  // of blocks; a short one counts as the part that it is
  double cold_ = 0;
  double again_ = 0;
  double attached_share_ = 1;  // an attached stage's iterators are not cut to the block
};

// The row with the most bytes of arguments that do not depend on it: a block of it reads them once.
size_t reused_row(const Kernel& kernel, const Target& target);
// estimate() of kernels with row loops.
double estimate_rows(const Schedule& schedule, const Kernel& kernel, const Target& target,
                     CostTerm* into = nullptr);

}  // namespace tile
