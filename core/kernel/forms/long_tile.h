// Tiles of carried rows that are longer than the registers.
#pragma once

#include "core/kernel/schedule.h"

namespace tile {

constexpr int64_t kLongTilePart = 8;  // vectors of a long tile that are written out

// Whether the tile's first loop is a serial one. Of a prefix or suffix: its running values lie in
// memory, as many as the first cache holds, and tensors are read and written in runs of such a
// tile.
inline bool is_long_tile(const PieceSchedule& schedule) {
  return !schedule.tile.empty() && schedule.tile.front().binding == Binding::serial;
}

}  // namespace tile
