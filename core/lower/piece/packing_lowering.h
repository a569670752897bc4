// Packing: the block of a load that the loops inside a level use is copied into a dense buffer in
// the order in which they use it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/lower/tile/tile_parts.h"

namespace tile::lowering {

class PackingLowering : PieceForm {
 public:
  explicit PackingLowering(TileParts& parts) : PieceForm(parts) {}

  // Makes the copy, which the loads in `s` are then read from.
  nest::Block pack(const Packing& packing, State& s);
  // Fills the copy that a run of another nest reads, one of the frame's.
  nest::Block prepare_copy(const Packing& whole);

 private:
  struct Unrolled {
    std::string variable;
    int64_t extent = 0;  // 0: no loop
  };
  bool copied_by_threads() const;
  nest::Block packing_loops(const Packing& packing, size_t entry, const State& s) const;
  nest::Block packing_groups(const Packing& packing, size_t entry, const State& s) const;
  nest::Block zero_groups(const Packing& packing, size_t entry, const State& s) const;
  nest::Block packing_blocks(const Packing& packing, size_t entry, const State& s) const;
  nest::Block packing_lanes(const Packing& packing, size_t entry, const Expr& count, const State& s,
                            const std::function<nest::Block(const Expr&, const Expr&)>& inside,
                            const Unrolled& rows) const;
  nest::Block packed_element(const Packing& packing, const State& s) const;
  bool rows_are_neighbours(const Packing& packing, size_t entry) const;
  int64_t moved_by(size_t load, IteratorId iterator) const;
  IterationBox bounds(const State& s) const;
  DType packed_type(const Packing& packing) const;
  std::vector<Expr> in_range(size_t load, const State& s) const;

  std::map<size_t, nest::BufferId> packing_buffers_;  // by load
  bool copied_by_threads_ = false;                    // copies outside of all loops are
};

}  // namespace tile::lowering
