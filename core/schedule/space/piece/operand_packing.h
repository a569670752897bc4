// Orders in which operands are copied for a register tile.
#pragma once

#include <vector>

#include "core/schedule/space/piece/tiling_context.h"

namespace tile {

class OperandPacking {
 public:
  explicit OperandPacking(const TilingContext& context) : c_(context) {}

  // Adds copies of all operands that are worth one, inside so many of the outer loops. Operands
  // along the vector: panels of the tile's width; others: rows as the reduction reads them.
  void pack(const RegisterTile& t, PieceSchedule& s, size_t level) const;
  // Whether the copy of the whole operand would be laid out as the operand is.
  bool in_place(const Packing& p, const AccessFacts& a) const;
  // Whether the vector's elements are neighbours in the copy.
  static bool along(const RegisterTile& t, const Packing& p, const PieceSchedule& s);

 private:
  // The parallel dimensions of a copy: whole tiles, then single rows, and last, inside the terms,
  // the cells of a tile (of joined lanes in the lanes' order).
  struct Panels {
    std::vector<Loop> tiles, rows, last;
  };
  Panels panels(const RegisterTile& t, const std::vector<Loop>& inside, const AccessFacts& a) const;
  // Values of the parallel dimension that the copy has together.
  int64_t panel_of(const RegisterTile& t, IteratorId u) const;
  // Lanes along a reduction that memory has apart: vectors of it side by side, for each those of
  // the tile's rows. Empty: they are neighbours already.
  std::vector<Loop> packed_lanes(const RegisterTile& t, const PieceSchedule& s,
                                 const std::vector<Loop>& inside, const AccessFacts& a) const;
  std::vector<Loop> packed_order(const RegisterTile& t, const PieceSchedule& s,
                                 const std::vector<Loop>& inside, const AccessFacts& a) const;

  const TilingContext& c_;
};

}  // namespace tile
