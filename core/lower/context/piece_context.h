// What every class that lowers a part of a piece knows: the nest, the piece, its schedule, and what
// follows from these alone.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/kernel/forms/amx_tiles.h"
#include "core/kernel/forms/dot_products.h"
#include "core/lower/context/constraints.h"
#include "core/lower/context/frame.h"
#include "core/lower/context/iteration_state.h"

namespace tile::lowering {

struct PieceContext {
  PieceContext(Frame& nest_frame, size_t stage_number, size_t piece_number,
               const PieceSchedule& given);

  Frame& frame;
  const Contraction& contraction;
  const size_t stage;            // of the kernel
  const size_t number_in_stage;  // of the piece
  const Piece& piece;
  const PieceSchedule schedule;
  const std::vector<PlacedConstraint> constraints;
  IdVector<IteratorId, std::string> names;  // of loop variables
  bool reduces = false;                     // accumulators are needed
  bool blocked = false;                     // reductions in the outer loops
  bool may_be_empty = false;        // a cell may have no valid point and must then keep the fill
  bool sums_all_cells = false;      // also of cells outside the domain, which are not stored
  bool lanes_reduce = false;        // the vector loop is over a reduction
  int64_t lane_width = 1;           // of that loop
  size_t carried_loops = 0;         // of the tile, its last ones: those over the carried dimension
  std::optional<DotForm> dot;       // the reduction's last loop is one operation
  bool tiles = false;               // by registers that hold matrices
  TileSizes sizes;                  // of these
  int64_t copies = 1;               // independent accumulators of an unrolled reduction
  size_t copy_loop = 0;             // the loop in `reduce` that tells them apart
  size_t parallel = 0;              // leading outer loops that are parallel
  size_t parametric_tiling = 0;     // leading outer loops over blocks of run-time sizes
  std::vector<int64_t> tile_shape;  // of the register tile, or of the cells of a GPU's thread
  std::map<size_t, const Frame::Prepared*> prepared;  // copies made before all runs, by load

  // The state outside of all loops.
  State whole_box() const;
  // The name of the iterator's next loop.
  std::string variable(IteratorId iterator, const State& s) const;
  bool sized_at_run_time(IteratorId iterator) const { return frame.open.is_open(piece, iterator); }
  // The iterator's extent, and the largest that it may be.
  Expr extent(IteratorId iterator) const { return frame.open.extent(piece, iterator); }
  int64_t most(IteratorId iterator) const { return frame.open.most(piece, iterator); }
  // The lanes of the tile's last loop where that is a vector loop over the iterator, which may have
  // a run-time number of lanes: of what is left of its blocks. Else 0.
  int64_t masked_lanes(IteratorId iterator) const;
  // Whether a reduction's range is bounded at its loop.
  bool is_bounded(IteratorId iterator) const;
  // Whether a dot product needs the correction of flipped signs (kernel/forms/dot_products.h).
  bool flips() const { return dot && dot->flipped; }
  // Of a load that is packed: what its copy is, and where the copy has the element.
  bool is_prepared(size_t load) const { return prepared.contains(load); }
  const Packing& packing_of(size_t load) const;
  nest::Access packed_access(size_t load, const State& s) const;
  // Iterations that are worth a task of their own, if the piece is `tasks` of them.
  int64_t grain_of(int64_t tasks) const;
};

// By how many elements of the buffer steps along its dimensions move.
int64_t elements_moved(const std::vector<int64_t>& steps, const nest::Buffer& b);

}  // namespace tile::lowering
