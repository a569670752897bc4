// Lowers one piece of a stage under its schedule by loops: the forms, put together. Private to
// core/lower; the forms of GPUs are in core/lower/gpu.
#pragma once

#include <string>
#include <vector>

#include "core/lower/piece/outer_loop_lowering.h"
#include "core/lower/tile/chained_scan_lowering.h"

namespace tile::lowering {

class PieceLowering {
 public:
  PieceLowering(Frame& frame, size_t stage, size_t piece, const PieceSchedule& schedule)
      : parts_(frame, stage, piece, schedule) {}

  // The whole piece.
  nest::Block run();
  // No cell: nothing is to be computed.
  bool is_empty() const;
  // Makes the buffers that live outside of the piece's loops. Called by run().
  void prepare(nest::Block& out);
  // Fills the copy that a run of another nest reads, one of the frame's.
  nest::Block prepare_copy(const Packing& whole) { return packing_.prepare_copy(whole); }

  // What forms of other folders are made of.
  TileParts& parts() { return parts_; }
  const std::vector<std::string>& names() const { return parts_.context.names; }
  // Of a kernel with rows.
  OuterLoopLowering& loops() { return loops_; }

 private:
  TileParts parts_;
  PartialSums partials_{parts_};
  ScanLowering scan_{parts_, partials_};
  TileLowering tile_{parts_, partials_, scan_};
  PackingLowering packing_{parts_};
  OuterLoopLowering loops_{parts_, packing_, tile_};
};

// A kernel with row loops.
nest::Block lower_rows(Frame& frame, const Schedule& schedule);

// Gives the cells of an output that no piece stores the default's values or zero; all of them
// where those are no simple set.
nest::Block fill(Frame& frame, TensorId tensor, const Contraction& c);

}  // namespace tile::lowering
