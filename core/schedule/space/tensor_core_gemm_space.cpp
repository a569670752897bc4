#include "core/schedule/space/tensor_core_gemm_space.h"

#include <algorithm>

#include "core/kernel/argument_layout.h"
#include "core/kernel/coverage.h"
#include "core/schedule/cost/tensor_core_gemm_rank.h"
#include "core/schedule/space/candidates.h"

namespace tile::tensor_cores {

std::vector<Schedule> schedules(const Kernel& kernel, const Target& target, size_t limit,
                                const Strides& strides) {
  if (target.gpu.matrix_per_ns <= 0 || row_loops(kernel) != 0) return {};
  ArgumentLayouts layouts = argument_layouts(kernel, strides);
  for (size_t s = 1; s < kernel.stages.size(); ++s) {
    if (!kernel.stages[s].attach.valid()) return {};
  }
  const Contraction& c = kernel.stages[0].contraction;
  if (c.fill || !covers_output(c, kernel.tensors)) return {};
  std::vector<std::vector<Ranked>> pieces;
  size_t most = 1;
  for (const Piece& piece : c.pieces) {
    std::optional<Product> product = product_of(piece, c, kernel, target, layouts);
    if (!product) return {};
    pieces.push_back(ranked_tiles(*product, piece, kernel, target));
    if (pieces.back().empty()) return {};
    most = std::max(most, pieces.back().size());
  }
  std::vector<Schedule> all;
  for (size_t i = 0; i < std::min(limit, most); ++i) {
    Schedule schedule;
    schedule.stages.resize(kernel.stages.size());
    for (const std::vector<Ranked>& ranked : pieces) {
      PieceSchedule p;
      p.gpu_form = ranked[std::min(i, ranked.size() - 1)].schedule;
      schedule.stages[0].push_back(std::move(p));
    }
    all.push_back(std::move(schedule));
  }
  return all;
}

Schedule schedule_without(const Kernel& kernel, const Target& target) {
  Target plain = target;
  plain.gpu.matrix_per_ns = 0;
  return analytic_schedule(kernel, plain);
}

}  // namespace tile::tensor_cores
