// Contractions of different ranks that compute the same cells.
#pragma once

#include <vector>

#include "core/ir/ranks/rank_program.h"

namespace tile {

// Whether both name the same cells: iterators have their values of the undivided program.
bool same_cells(const Access& a, const Access& b);

// Whether another rank adds up some of the same terms as this rank's contraction, so that both have
// the same bits only where both add in one order.
bool adds_as_others(const std::vector<RankProgram>& ranks, size_t rank, const Contraction& c);

}  // namespace tile
