// Contractions that read what an exchange gathers, in pieces: each piece of their results needs
// what the rank has itself, or what one piece of the exchange brings.
#pragma once

#include <optional>
#include <vector>

#include "core/distribute/overlap/pieces/piecewise.h"

namespace tile {

// Nullopt: what reads the exchange's result cannot be divided so, on some rank.
std::optional<Piecewise> gathered_in_pieces(const PartitionedProgram& parts, size_t exchange,
                                            PieceCut cut, const OverlapOptions& options);

}  // namespace tile
