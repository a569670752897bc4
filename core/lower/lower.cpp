// lower: a kernel and its schedule become one nest.
#include "core/lower/lower.h"

#include <algorithm>
#include <set>

#include "core/kernel/coverage.h"
#include "core/kernel/stream.h"
#include "core/lower/gpu/gpu_lowering.h"
#include "core/lower/launch/gpu_launch.h"
#include "core/lower/piece/lowering.h"
#include "core/nest/source_lines.h"
#include "core/schedule/legality/tensor_core_gemm_legality.h"
#include "core/schedule/search/dynamic_extent.h"
#include "core/schedule/space/tensor_core_gemm_space.h"

namespace tile {
namespace {

// Pieces share no cell and read none: parallel loops of as many tasks become one, so that what a
// task's parts read and write close together is near.
nest::Block with_shared_parallel_loops(std::vector<nest::Block> pieces) {
  nest::Block before, loops;
  for (nest::Block& piece : pieces) {
    auto* last = piece.empty() ? nullptr : std::get_if<nest::For>(&piece.back().what);
    if (last != nullptr && last->kind == nest::LoopKind::parallel) {
      auto common = std::find_if(loops.begin(), loops.end(), [&](const nest::Statement& s) {
        const auto& loop = std::get<nest::For>(s.what);
        return loop.variable == last->variable && loop.begin == last->begin &&
               loop.extent == last->extent;
      });
      if (common == loops.end()) {
        loops.push_back(std::move(piece.back()));
      } else {
        auto& loop = std::get<nest::For>(common->what);
        loop.grain = std::min(loop.grain, last->grain);
        lowering::append(loop.body, std::move(last->body));
      }
      piece.pop_back();
    }
    lowering::append(before, std::move(piece));
  }
  lowering::append(before, std::move(loops));
  return before;
}

// The stages with loops of their own, one after the other.
void lower_stages(lowering::Frame& frame, const Schedule& schedule) {
  for (size_t s = 0; s < frame.kernel.stages.size(); ++s) {
    if (frame.kernel.stages[s].attach.valid()) continue;
    const Contraction& c = frame.kernel.stages[s].contraction;
    if (!covers_output(c, frame.kernel.tensors)) {
      std::set<TensorId> outputs(c.outputs.begin(), c.outputs.end());
      for (TensorId out : outputs) {
        nest::Block filled = lowering::fill(frame, out, c);
        nest::give_span(filled, c.span);
        lowering::append(frame.nest.body, std::move(filled));
      }
    }
    std::vector<nest::Block> each;
    for (size_t p = 0; p < c.pieces.size(); ++p) {
      const PieceSchedule& how = schedule.stages[s][p];
      lowering::PieceLowering piece(frame, s, p, how);
      each.push_back(how.has_gpu_form() ? lowering::lower_gpu_form(piece) : piece.run());
      nest::give_span(each.back(), c.span);
    }
    nest::Block pieces;
    if (is_gpu(frame.target)) {
      for (nest::Block& piece : each) lowering::append(pieces, std::move(piece));
      // Pieces share no cell, so that their launches may run side by side.
      pieces = gpu::bind_grid(std::move(pieces), frame.nest.buffers, frame.target);
      if (c.pieces.size() > 1) pieces = gpu::merged_launches(std::move(pieces));
    } else {
      pieces = with_shared_parallel_loops(std::move(each));
    }
    lowering::append(frame.nest.body, std::move(pieces));
  }
}

nest::Nest bound_to_launch(lowering::Frame& frame) {
  return is_gpu(frame.target) ? gpu::bind_grid(std::move(frame.nest), frame.target)
                              : std::move(frame.nest);
}

}  // namespace

nest::Nest lower(const Kernel& kernel, const Schedule& schedule, const Target& target,
                 const Strides& strides) {
  if (!tensor_cores::fits_strides(schedule, kernel, target, strides)) {
    std::vector<Schedule> others = tensor_cores::schedules(kernel, target, 1, strides);
    if (others.empty()) others = {tensor_cores::schedule_without(kernel, target)};
    return lower(kernel, others[0], target, strides);
  }
  lowering::Frame frame = lowering::make_frame(kernel, target, strides);
  if (schedule.gpu_lines) {
    lowering::append(frame.nest.body, lowering::lower_lines(frame, schedule));
    return std::move(frame.nest);
  }
  if (schedule.gpu_stream) {
    lowering::append(frame.nest.body, lowering::lower_gpu_stream(frame, schedule));
    return std::move(frame.nest);
  }
  frame.take_prepacked(schedule);
  if (row_loops(kernel) > 0) {
    lowering::append(frame.nest.body, lowering::lower_rows(frame, schedule));
    return bound_to_launch(frame);
  }
  lower_stages(frame, schedule);
  return bound_to_launch(frame);
}

nest::Nest lower(const Kernel& kernel, const SharedForm& form, const Target& target,
                 const Strides& strides) {
  lowering::Frame frame = lowering::make_frame(kernel, target, strides);
  frame.take_form(form);
  lower_stages(frame, form.schedule);
  return std::move(frame.nest);
}

nest::Nest lower(const ClassKernel& kernel, const Schedule& schedule, const Target& target) {
  internal_check(!is_gpu(target) && suits_class(schedule, kernel),
                 "lower: a schedule that does not suit a class of sizes");
  lowering::Frame frame = lowering::make_frame(kernel.kernel, target, {}, &kernel.extent);
  frame.take_prepacked(schedule);
  if (row_loops(kernel.kernel) > 0) {
    lowering::append(frame.nest.body, lowering::lower_rows(frame, schedule));
  } else {
    lower_stages(frame, schedule);
  }
  return std::move(frame.nest);
}

std::vector<Prepacking> prepackings(const Kernel& kernel, const Schedule& schedule,
                                    const Target& target, const Strides& strides) {
  std::vector<Prepacking> all;
  for (const PrepackedPacking& p : prepacked_packings(kernel, schedule, target)) {
    const PieceSchedule& how = schedule.stages[p.stage][p.piece];
    const Piece& piece = kernel.stages[p.stage].contraction.pieces[p.piece];
    TensorId source = piece.loads[p.packing.load].tensor;
    lowering::Frame frame = lowering::empty_frame(kernel, target);
    frame.add_argument(source, false, strides);
    frame.prepared = {{p, frame.add_prepacked(p, how, true)}};
    frame.nest.body = lowering::PieceLowering(frame, p.stage, p.piece, how).prepare_copy(p.packing);
    nest::give_span(frame.nest.body, kernel.stages[p.stage].contraction.span);
    all.push_back({source, std::move(frame.nest)});
  }
  return all;
}

}  // namespace tile
