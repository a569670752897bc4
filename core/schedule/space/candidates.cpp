#include "core/schedule/space/candidates.h"

// Candidates of whole kernels: the class decides who makes them; on the host every piece's best,
// then those that differ from it in one piece.
#include <algorithm>

#include "core/kernel/forms/gpu_forms.h"
#include "core/kernel/forms/tensor_core_gemm.h"
#include "core/kernel/rows.h"
#include "core/schedule/cost/task_sharing.h"
#include "core/schedule/space/gpu_schedule.h"
#include "core/schedule/space/piece/piece_space.h"
#include "core/schedule/space/remembered_schedules.h"
#include "core/schedule/space/row_candidates.h"
#include "core/schedule/space/shared_parallel_loops.h"
#include "core/schedule/space/tensor_core_gemm_space.h"

namespace tile {
namespace {

// Whether one before, which then costs as much, is the same.
bool repeats(const std::vector<RankedPiece>& ranked, size_t at) {
  for (size_t i = at; i-- > 0 && ranked[i].nanoseconds == ranked[at].nanoseconds;) {
    if (ranked[i].schedule == ranked[at].schedule) return true;
  }
  return false;
}

// Another choice for a stage.
struct Option {
  double more = 0;  // nanoseconds than the best
  size_t stage = 0;
  std::vector<PieceSchedule> pieces;
};

// The best choice for the pieces of a stage, and others: of one piece each, or of all in common
// tasks.
std::vector<PieceSchedule> choose_stage(const Kernel& kernel, size_t stage, const Target& target,
                                        size_t limit, const Breadth& breadth,
                                        std::vector<Option>& options) {
  const Contraction& c = kernel.stages[stage].contraction;
  std::vector<std::vector<RankedPiece>> ranked;
  RankedStage best;
  for (size_t p = 0; p < c.pieces.size(); ++p) {
    ranked.push_back(piece_candidates(kernel, stage, p, target, breadth));
    best.nanoseconds += ranked[p][0].nanoseconds;
    best.pieces.push_back(ranked[p][0].schedule);
    if (p > 0) best.nanoseconds += apart_ns(c, p, best.pieces, target);
  }
  RankedStage apart = best;
  std::vector<RankedStage> common =
      choices_with_shared_parallel_loops(kernel, stage, ranked, target);
  if (!common.empty() && common[0].nanoseconds < best.nanoseconds) best = common[0];
  for (const RankedStage& s : common) {
    options.push_back({s.nanoseconds - best.nanoseconds, stage, s.pieces});
  }
  for (size_t p = 0; p < ranked.size(); ++p) {
    size_t kept = 1;
    for (size_t i = 1; i < ranked[p].size() && kept < limit; ++i) {
      if (repeats(ranked[p], i)) continue;
      double ns = apart.nanoseconds + ranked[p][i].nanoseconds - ranked[p][0].nanoseconds;
      Option o{ns - best.nanoseconds, stage, apart.pieces};
      o.pieces[p] = ranked[p][i].schedule;
      options.push_back(std::move(o));
      ++kept;
    }
  }
  return std::move(best.pieces);
}

// The best choice of every stage, then those that differ from it in one stage.
std::vector<Schedule> host_candidates(const Kernel& kernel, const Target& target, size_t limit,
                                      const Breadth& breadth) {
  Schedule best;
  best.stages.resize(kernel.stages.size());
  std::vector<Option> options;
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    if (kernel.stages[s].attach.valid()) continue;
    best.stages[s] = choose_stage(kernel, s, target, limit, breadth, options);
  }
  std::stable_sort(options.begin(), options.end(),
                   [](const Option& a, const Option& b) { return a.more < b.more; });
  std::vector<Schedule> all{best};
  for (Option& o : options) {
    if (all.size() >= limit) break;
    Schedule s = best;
    s.stages[o.stage] = std::move(o.pieces);
    if (std::find(all.begin(), all.end(), s) == all.end()) all.push_back(std::move(s));
  }
  return all;
}

}  // namespace

std::vector<Schedule> candidates(const Kernel& kernel, const Target& target, size_t limit) {
  if (std::vector<Schedule> streams = gpu::stream_schedules(kernel, target); !streams.empty()) {
    if (streams.size() > limit) streams.resize(limit);
    return streams;
  }
  bool lines = is_gpu(target) && gpu::line_form(kernel);
  if (row_loops(kernel) > 0 && !lines) return row_candidates(kernel, target, limit);
  std::vector<Schedule> products = tensor_cores::schedules(kernel, target, limit);
  if (!products.empty()) return products;
  if (is_gpu(target)) return gpu::candidate_schedules(kernel, target, limit);
  return host_candidates(kernel, target, limit, {});
}

std::vector<Schedule> wide_candidates(const Kernel& kernel, const Target& target, size_t limit) {
  constexpr Breadth kWide{16, 5};
  if (is_gpu(target) || row_loops(kernel) > 0) return candidates(kernel, target, limit);
  return host_candidates(kernel, target, limit, kWide);
}

std::vector<Schedule> whole_space(const Kernel& kernel, const Target& target, size_t limit) {
  if (is_gpu(target) || row_loops(kernel) > 0) return candidates(kernel, target, limit);
  return host_candidates(kernel, target, limit, kWholeSpace);
}

Schedule analytic_schedule(const Kernel& kernel, const Target& target) {
  auto make = [&] { return candidates(kernel, target, 1)[0]; };
  RememberedSchedules* remembered = RememberedSchedules::of(target);
  return remembered != nullptr ? remembered->get(kernel, make) : make();
}

}  // namespace tile
