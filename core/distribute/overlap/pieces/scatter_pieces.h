// A contraction whose terms ranks add up, in pieces: each rank computes first what others add up,
// piece by piece, and gives it away while it computes the next one.
#pragma once

#include <optional>

#include "core/distribute/overlap/pieces/piecewise.h"

namespace tile {

// Nullopt: the exchange is no reduce-scatter, or what makes its source cannot be divided so.
std::optional<Piecewise> scattered_in_pieces(const PartitionedProgram& parts, size_t exchange,
                                             PieceCut cut, const OverlapOptions& options);

}  // namespace tile
