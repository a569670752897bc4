// What tests of points cost the register tiles at the borders of a domain.
#pragma once

#include "core/schedule/facts/tile_shape.h"

namespace tile {

// What is given must outlive it.
class BorderTests {
 public:
  BorderTests(const PieceFacts& facts, const PieceSchedule& schedule, const TileShape& shape)
      : f_(facts), s_(schedule), t_(shape) {}

  // Of the time of all tiles, with the tests of those at a border.
  double factor() const;
  // The part of the tiles in which each tap that is written out has a test of its own: then rows
  // share nothing between taps.
  double tested_taps() const;

 private:
  bool repeats_border(const Constraint& c) const;
  double at_border(size_t tiled) const;

  const PieceFacts& f_;
  const PieceSchedule& s_;
  const TileShape& t_;
};

}  // namespace tile
