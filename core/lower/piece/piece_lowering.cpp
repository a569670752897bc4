// What the lowering of a piece is made of, and the order of its parts.
#include <algorithm>

#include "core/kernel/coverage.h"
#include "core/kernel/geometry.h"
#include "core/kernel/stream.h"
#include "core/lower/piece/lowering.h"
#include "core/schedule/search/dynamic_extent.h"

namespace tile::lowering {

PieceLowering::PieceLowering(Frame& frame, size_t stage, size_t piece,
                             const PieceSchedule& schedule)
    : frame_(frame),
      contraction_(frame.kernel.stages[stage].contraction),
      stage_(stage),
      number_in_stage_(piece),
      piece_(contraction_.pieces[piece]),
      schedule_(fitted(schedule, frame, piece_, contraction_)),
      constraints_(place_constraints(piece_, schedule, has_stream(frame.kernel))),
      names_(plain_names(piece_.iterators)) {
  reduces_ = piece_.parallel_dims < piece_.box.size();
  blocked_ = std::any_of(schedule.outer.begin(), schedule.outer.end(), [&](const Loop& l) {
    return static_cast<size_t>(l.iterator) >= piece_.parallel_dims;
  });
  bool zero_if_empty = contraction_.aggregation == Aggregation::sum && !contraction_.fill;
  may_be_empty_ = reduces_ && schedule.carried < 0 && !zero_if_empty && !surely_nonempty(piece_);
  lanes_reduce_ = !schedule.reduce.empty() && schedule.reduce.back().binding == Binding::vector;
  if (lanes_reduce_) lane_width_ = lane_count(schedule.reduce, piece_);
  tile_shape_ = tile_shape(schedule, piece_);
  carried_loops_ = carried_tile_loops(schedule);
  copies_ = accumulator_copies(schedule, piece_, contraction_, frame.target, copy_loop_);
  if (dot_group(schedule) > 1) {
    dot_ = form_of(schedule, piece_, contraction_, frame.kernel.tensors);
  }
  tiles_ = uses_tiles(schedule);
  if (tiles_) sizes_ = tile_sizes(schedule, piece_);
  if (!schedule.tile.empty()) tile_test_ = tile_test_place();
  if (tile_test_ && !is_gpu(frame.target)) tap_test_ = tap_test_place();
  for (const Frame::Prepared& p : frame.prepared) {
    bool own = p.what.stage == stage && p.what.piece == piece;
    if (own) prepared_[static_cast<size_t>(p.what.packing.load)] = &p;
  }
  if (frame.extent != nullptr) walker_ = walking_iterator(piece_);
  if (frame.form != nullptr) parametric_tiling_ = frame.form->blocks[stage][piece];
  while (parallel_ < schedule.outer.size() &&
         schedule.outer[parallel_].binding == Binding::parallel) {
    ++parallel_;
  }
}

void PieceLowering::prepare(nest::Block& out) {
  make_partials(out);
  if (reduces_) make_accumulators();
  find_attached();
}

nest::Block PieceLowering::run() {
  for (size_t u = 0; u < piece_.parallel_dims; ++u) {
    if (piece_.box[u] <= 0) return {};
  }
  if (schedule_.simt_gemm)
    tile_shape_ = {schedule_.simt_gemm->thread_m, schedule_.simt_gemm->thread_n};
  if (schedule_.gpu_reduction && schedule_.gpu_reduction->vector > 1)
    tile_shape_ = {schedule_.gpu_reduction->vector};
  if (schedule_.gpu_scan) tile_shape_ = scan_shape(*schedule_.gpu_scan);
  nest::Block out;
  prepare(out);
  if (schedule_.simt_gemm) return simt_gemm(*schedule_.simt_gemm);
  if (schedule_.gpu_reduction) return gpu_reduction(*schedule_.gpu_reduction);
  if (schedule_.gpu_scan) return gpu_scan(*schedule_.gpu_scan);
  if (schedule_.gpu_transpose) return gpu_transpose(*schedule_.gpu_transpose);
  if (parametric_tiling_ > 0) {
    append(out, parametric_tiling());
  } else {
    append(out, is_chained(schedule_) ? chained_scan() : parallel_loops());
  }
  return out;
}

}  // namespace tile::lowering
