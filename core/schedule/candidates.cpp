// Candidates of whole kernels: the class decides who makes them; on the host every piece's best,
// then those that differ from it in one piece.
#include <algorithm>

#include "core/schedule/gpu_forms.h"
#include "core/schedule/rows.h"
#include "core/schedule/space.h"
#include "core/schedule/tensor_cores.h"

namespace tile {
namespace {

// Whether one before, which then costs as much, is the same.
bool repeats(const std::vector<RankedPiece>& ranked, size_t at) {
  for (size_t i = at; i-- > 0 && ranked[i].nanoseconds == ranked[at].nanoseconds;) {
    if (ranked[i].schedule == ranked[at].schedule) return true;
  }
  return false;
}

// The best choice of every piece, then those that differ from it in one piece.
std::vector<Schedule> host_candidates(const Kernel& kernel, const Target& target, size_t limit,
                                      const Breadth& breadth) {
  Schedule best;
  best.stages.resize(kernel.stages.size());
  struct Option {
    double more;
    size_t stage, piece;
    PieceSchedule schedule;
  };
  std::vector<Option> options;
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    if (kernel.stages[s].attach >= 0) continue;
    for (size_t p = 0; p < kernel.stages[s].contraction.pieces.size(); ++p) {
      std::vector<RankedPiece> ranked = piece_candidates(kernel, s, p, target, breadth);
      best.stages[s].push_back(ranked[0].schedule);
      size_t kept = 1;
      for (size_t i = 1; i < ranked.size() && kept < limit; ++i) {
        if (repeats(ranked, i)) continue;
        options.push_back(
            {ranked[i].nanoseconds - ranked[0].nanoseconds, s, p, ranked[i].schedule});
        ++kept;
      }
    }
  }
  std::stable_sort(options.begin(), options.end(),
                   [](const Option& a, const Option& b) { return a.more < b.more; });
  std::vector<Schedule> all{best};
  for (Option& o : options) {
    if (all.size() >= limit) break;
    Schedule s = best;
    s.stages[o.stage][o.piece] = std::move(o.schedule);
    if (std::find(all.begin(), all.end(), s) == all.end()) all.push_back(std::move(s));
  }
  return all;
}

}  // namespace

std::vector<Schedule> candidates(const Kernel& kernel, const Target& target, size_t limit) {
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
  return candidates(kernel, target, 1)[0];
}

}  // namespace tile
