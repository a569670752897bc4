// Where the integers of bodies lie.
#pragma once

#include <cstdint>

#include "core/ir/body.h"

namespace tile {

struct ValueRange {
  int64_t lo = 0;
  int64_t hi = 0;
};
// Bounds of an integer node's value from its type, its casts and its extrema with literals; far
// from the ends of 64 bits, which stand for unbounded.
ValueRange value_range(const Body& body, NodeId id);

}  // namespace tile
