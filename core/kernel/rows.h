// Kernels with row loops, for the files of this folder.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/kernel/schedule.h"

namespace tile {

// For each dimension of an access the row that its index is, alone, if it is. `rows`: of each
// iterator.
std::vector<RowId> row_indices(const Access& access, const IdVector<IteratorId, RowId>& rows);
// The row that the iterator is, of a stage's shared_iterators(); none: it is none of them.
RowId row_of(const IdVector<RowId, IteratorId>& rows, IteratorId u);
// Empty where the kernel's rows keep the rules of KernelStage::rows; else the first broken one.
std::string broken_rows(const Kernel& kernel);
// The same of Schedule::shared.
std::string broken_shared(const Schedule& schedule, const Kernel& kernel);

// The kernel with the extents of its rows, and last of its streamed axis if there is one, replaced:
// what a block is to its stages.
Kernel block_of_rows(const Kernel& kernel, const std::vector<int64_t>& blocks);
// One loop around all stages: a row by its number; the streamed axis counts as the last row.
struct SharedLoop {
  size_t row = 0;
  int64_t step = 1;
  Binding binding = Binding::serial;
};
// A stage's schedule for a block of rows, inside the shared loops.
PieceSchedule inside_shared(const PieceSchedule& block, const KernelStage& stage,
                            const std::vector<SharedLoop>& shared);
// Every stage's schedule for a block of rows put inside the shared loops.
Schedule schedule_in_rows(const Kernel& kernel, const std::vector<SharedLoop>& shared,
                          const std::function<PieceSchedule(size_t stage)>& inside);

}  // namespace tile
