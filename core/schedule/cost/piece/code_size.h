// The cost of much code.
#pragma once

#include "core/schedule/facts/tile_shape.h"

namespace tile {

// Of register tiles that take so many cycles together: what they take with the cost of their code,
// as a multiple.
double code_factor(const PieceFacts& facts, const TileShape& t, double cycles);

}  // namespace tile
