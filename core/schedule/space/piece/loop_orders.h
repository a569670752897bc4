// Orders of the loops around a register tile.
#pragma once

#include <vector>

#include "core/schedule/space/piece/tiling_context.h"

namespace tile {

class LoopOrders {
 public:
  explicit LoopOrders(const TilingContext& context) : c_(context) {}

  // Parallel dimensions by decreasing stride in the output; loops of one iteration last.
  std::vector<IteratorId> parallel_dims() const;
  std::vector<Loop> natural(const RegisterTile& t) const;
  // The natural order, orders in which parallel dimensions that share nothing come first or second,
  // and orders in which one tiled parallel dimension moves to either end.
  std::vector<std::vector<Loop>> all(const RegisterTile& t) const;

 private:
  bool shares_nothing(const RegisterTile& t, IteratorId u) const;
  std::vector<Loop> columns_first(const RegisterTile& t, std::vector<Loop> columns) const;

  const TilingContext& c_;
};

}  // namespace tile
