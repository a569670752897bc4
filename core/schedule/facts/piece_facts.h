// What is known of one piece before a schedule is chosen: its accesses, its extents, and figures of
// its body on the target. Legality apart, all that prices, proposes or lowers schedules reads it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/kernel/kernel.h"
#include "core/kernel/schedule.h"
#include "core/schedule/facts/access_facts.h"

namespace tile {

// The references must outlive it. Immutable once made: threads may share it.
struct PieceFacts {
  PieceFacts(const Piece& of, const Contraction& of_contraction, const Kernel& of_kernel,
             const Target& on);

  const Piece& piece;
  const Contraction& contraction;
  const Kernel& kernel;
  const Target& target;
  std::vector<AccessFacts> accesses;  // loads, then stores
  bool reduces = false;
  int64_t lanes = 1;       // of a vector register, for the widest type computed
  double body = 0;         // cycles of the body, a vector of points
  double round = 0;        // cycles of a window's one value
  double chain = 0;        // cycles that the rounds of folds take at least, one after the other
  double cycle_ns = 1;     // nanoseconds of a cycle
  bool taps_only = false;  // every reduction is the tap of a short window that slides along a
                           // parallel dimension: depthwise convolutions and pools
  bool row_waits = false;  // the next stage of a row needs what this one reduces
  bool is_window = false;  // cells are sums over sliding windows

  int64_t extent(IteratorId iterator) const { return piece.box[iterator]; }
  bool is_parallel_dim(IteratorId iterator) const { return piece.is_parallel(iterator); }
  const AccessFacts& load(size_t number) const { return accesses[number]; }
  const AccessFacts& first_store() const { return accesses[piece.loads.size()]; }
  double points() const;  // of the box
  // Whether windows of neighbours along the parallel dimension overlap in some load as the
  // reduction runs.
  bool slides(size_t parallel_dim, size_t reduction) const;
  // Whether copies of the load are made before all runs, which pay for reading them alone.
  bool packed_once(const PieceSchedule& s, const Packing& p) const;
  // Whether an earlier access of the same kind touches the block's lines.
  bool shares_lines(size_t access, Range range) const;
};

}  // namespace tile
