// Users of scores with scores of their own, as statements of a program. Private to core/layout.
#pragma once

#include <vector>

#include "core/layout/program_parts.h"

namespace tile::layout {

// Users that share scores of their own: sums over one axis, in order.
struct Sharing {
  std::vector<size_t> users;
};

// Each list of users reads copies of the region's statements that it needs, made where the last one
// stands; its tensors are added to the program. What nobody reads any more is left out.
Instead own_scores(BoundProgram& program, const ScoreRegion& region,
                   const std::vector<Sharing>& lists);

// Whether user `i` of the program can be moved to where `j` stands, which is behind it.
bool moves_behind(const BoundProgram& program, size_t i, size_t j);

}  // namespace tile::layout
