// The estimate of a whole kernel: its stages, one after the other, on the model that its form has.
#include "core/schedule/cost/estimate.h"

#include <algorithm>

#include "core/schedule/cost/gpu_model.h"
#include "core/schedule/cost/piece/piece_model.h"
#include "core/schedule/cost/piece/thread_cost.h"
#include "core/schedule/cost/row_model.h"
#include "core/schedule/cost/task_sharing.h"

namespace tile {
namespace {

// One piece of a stage.
double estimate_piece(const Schedule& schedule, size_t s, size_t p, const Kernel& kernel,
                      const Target& target, CostTerm* into) {
  const Contraction& c = kernel.stages[s].contraction;
  const std::vector<Piece>& pieces = c.pieces;
  const std::vector<PieceSchedule>& how = schedule.stages[s];
  if (is_gpu(target)) return gpu::estimate_piece(how[p], pieces[p], c, kernel, target, into);
  PieceModel model(pieces[p], c, kernel, target);
  bool joins = p > 0 && share_tasks(how[0], how[p], pieces[0], pieces[p]) &&
               PieceModel(pieces[0], c, kernel, target).threaded(how[0]);
  return joins ? model.joining_ns(how[p], into) : model.nanoseconds(how[p], into);
}

std::string stage_name(const Kernel& kernel, size_t s, size_t p) {
  std::string name = "stage " + std::to_string(s);
  if (kernel.stages[s].contraction.pieces.size() > 1) name += " piece " + std::to_string(p);
  return name;
}

double estimate_stages(const Schedule& schedule, const Kernel& kernel, const Target& target,
                       CostTerm* into) {
  double total = kKernelStartNanoseconds;
  if (into != nullptr) into->add("starting the kernel", total);
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    const KernelStage& stage = kernel.stages[s];
    if (stage.attach.valid()) {
      double ns = attached_ns(stage, kernel, target) / std::max(1, target.threads);
      total += ns;
      if (into != nullptr) into->add(stage_name(kernel, s, 0) + ", in the tile", ns);
      continue;
    }
    for (size_t p = 0; p < stage.contraction.pieces.size(); ++p) {
      CostTerm term;
      term.name = stage_name(kernel, s, p);
      total += estimate_piece(schedule, s, p, kernel, target, into == nullptr ? nullptr : &term);
      if (into != nullptr) into->add(std::move(term));
      if (is_gpu(target) || p == 0) continue;
      double apart = apart_ns(stage.contraction, p, schedule.stages[s], target);
      total += apart;
      if (into != nullptr) into->add_if("lines that other threads have written", apart);
    }
  }
  return total;
}

}  // namespace

double estimate(const Schedule& schedule, const Kernel& kernel, const Target& target,
                CostTerm* into) {
  if (into != nullptr) {
    *into = {};
    into->name = "kernel";
  }
  double total = 0;
  if (schedule.gpu_lines) {
    total = gpu::estimate_lines(*schedule.gpu_lines, kernel, target, into);
  } else if (schedule.gpu_stream) {
    total = gpu::estimate_stream(*schedule.gpu_stream, kernel, target, into);
  } else if (row_loops(kernel) > 0) {
    total = estimate_rows(schedule, kernel, target, into);
  } else {
    total = estimate_stages(schedule, kernel, target, into);
  }
  if (into != nullptr) into->ns = total;
  return total;
}

}  // namespace tile
