// The loops of a reduction and of the register tile inside it.
#pragma once

#include <vector>

#include "core/schedule/space/piece/tiling_context.h"

namespace tile {

class InnerLoops {
 public:
  explicit InnerLoops(const TilingContext& context) : c_(context) {}

  // Reductions, the one with the smallest stride innermost, the vector one last of all.
  std::vector<Loop> reductions(const RegisterTile& t) const;
  // The tile under these outer loops.
  PieceSchedule schedule(const RegisterTile& t, std::vector<Loop> outer) const;

 private:
  std::vector<IteratorId> reduction_order(const RegisterTile& t) const;
  void add_amx(std::vector<Loop>& loops, IteratorId u) const;
  void add_reduction(std::vector<Loop>& loops, const RegisterTile& t, IteratorId u,
                     bool last) const;
  void write_out_picks(const RegisterTile& t, std::vector<Loop>& loops) const;
  IteratorId written_out_tap(const RegisterTile& t) const;
  bool slides_along_rows(const RegisterTile& t, IteratorId reduction) const;
  void add_amx_tile(PieceSchedule& s, const RegisterTile& t) const;

  const TilingContext& c_;
};

}  // namespace tile
