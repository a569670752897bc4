// The simplest schedule of a kernel: one serial loop for each iterator.
#include "core/kernel/geometry.h"
#include "core/kernel/rows.h"
#include "core/kernel/stream.h"

namespace tile {

PieceSchedule plain_schedule(const Piece& piece) {
  PieceSchedule s;
  for (size_t u = 0; u < piece.box.size(); ++u) {
    (u < piece.parallel_dims ? s.outer : s.reduce).push_back({IteratorId(u), 1, Binding::serial});
  }
  return s;
}

Schedule schedule_in_rows(const Kernel& kernel, const std::vector<SharedLoop>& shared,
                          const std::function<PieceSchedule(size_t)>& inside) {
  Schedule schedule;
  schedule.shared = shared.size();
  schedule.stages.resize(kernel.stages.size());
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    if (kernel.stages[s].attach.valid()) continue;
    schedule.stages[s] = {inside_shared(inside(s), kernel.stages[s], shared)};
  }
  return schedule;
}

namespace {

Schedule plain_rows(const Kernel& kernel) {
  std::vector<SharedLoop> shared;
  size_t rows = row_loops(kernel) + (has_stream(kernel) ? 1 : 0);
  for (size_t r = 0; r < rows; ++r) shared.push_back({r, 1, Binding::serial});
  return schedule_in_rows(kernel, shared, [&](size_t s) {
    return plain_schedule(kernel.stages[s].contraction.pieces[0]);
  });
}

}  // namespace

Schedule plain_schedule(const Kernel& kernel) {
  if (row_loops(kernel) > 0) return plain_rows(kernel);
  Schedule schedule;
  for (const KernelStage& stage : kernel.stages) {
    schedule.stages.emplace_back();
    if (stage.attach.valid()) continue;
    for (const Piece& piece : stage.contraction.pieces) {
      schedule.stages.back().push_back(plain_schedule(piece));
    }
  }
  return schedule;
}

}  // namespace tile
