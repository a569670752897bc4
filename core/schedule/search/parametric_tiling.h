// Kernels whose blocks of parallel dimensions have sizes that each launch gives: schedules that
// differ in those blocks, in the order of the loops over them and in threads share one code.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/kernel/schedule.h"

namespace tile {

// The loops of a piece: first one over the blocks of each parallel dimension that has several, none
// twice, all of them walked as one loop in an order that the launch gives; blocks of reductions;
// copies; the loops over register tiles.
struct SharedForm {
  // The step of a loop over blocks is the largest that the form is meant for.
  Schedule schedule;
  std::vector<std::vector<size_t>> blocks;  // [stage][piece] leading outer loops over such blocks
};

// Cells of a tile along a parallel dimension: the step of its last loop in `outer`.
int64_t tile_cells(const std::vector<Loop>& outer, IteratorId parallel_dim);

// Far from where a product of two overflows.
constexpr int64_t kMostParametricTiles = int64_t{1} << 30;

// The form of a schedule for a CPU; nullopt where its loops do not fit one.
std::optional<SharedForm> shared_form(const Schedule& schedule, const Kernel& kernel,
                                      const Target& target);

// The schedules of one form.
struct SharedKernel {
  SharedForm form;
  std::vector<size_t> members;  // by their place in the list
  // Of each member's launches, in the nest's order. For each piece with n loops over blocks: chunks
  // for threads, blocks in a chunk, blocks in all; for all loops but the innermost the blocks
  // inside one of its iterations; for each parallel dimension the tiles in its block, and n times
  // the tiles by which an iteration of a loop, outermost first, moves it.
  std::vector<std::vector<int64_t>> arguments;
};
// Every schedule that fits a form is a member of one kernel, in the order of the list.
std::vector<SharedKernel> shared_kernels(std::span<const Schedule> schedules, const Kernel& kernel,
                                         const Target& target);

}  // namespace tile
