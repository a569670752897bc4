// Whether what a block tests is little beside what it computes.
#pragma once

#include "core/nest/nest.h"
#include "core/simplify/simplify.h"

namespace tile::nest {

// So little that a copy of the block without its guards, masked lanes and choices of indices would
// be no faster. `ranges` are of the variables around the block.
bool tests_are_rare(const Block& statements, const Ranges& ranges);

}  // namespace tile::nest
