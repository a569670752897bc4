// Tiles at a border of the domain: whether all of a tile's points are in it, all but some rows at
// one end, or each must be tested.
#pragma once

#include <optional>
#include <vector>

#include "core/lower/context/piece_values.h"

namespace tile::lowering {

class Borders {
 public:
  Borders(const PieceContext& context, const PieceValues& values);

  // The loop in `reduce` where a whole tile is tested, and before it the one where all values of
  // those loops are that are written out; nullopt: there is no such test.
  std::optional<size_t> tile_test() const { return tile_test_; }
  std::optional<size_t> tap_test() const { return tap_test_; }
  // Expressions that are all >= 0 where the domain has all points of the tile's rows, for all
  // values of the reductions whose loops are inside.
  std::vector<Expr> tile_conditions(const State& s, const TileRows& rows) const;
  // The whole tile, then the tiles without one row and more at an end where some may be missing.
  std::vector<TileRows> shortened(const State& s) const;

 private:
  struct Missing {
    int64_t below = 0, above = 0;
  };
  std::optional<size_t> tile_test_place() const;
  std::optional<size_t> tap_test_place() const;
  bool alone_in_conditions(IteratorId iterator) const;
  Missing missing_rows(IteratorId iterator) const;

  const PieceContext& c_;
  const PieceValues& values_;
  std::optional<size_t> tile_test_, tap_test_;
};

}  // namespace tile::lowering
