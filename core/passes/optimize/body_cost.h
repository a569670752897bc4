// What an element costs to compute, roughly.
#pragma once

#include "core/ir/bound.h"

namespace tile {

// Relative to an addition; a polynomial function is an order dearer.
double node_cost(const Node& node);
// How often a fold's region runs, where its bounds say so.
double fold_trips(const Body& body, const Node& fold);
// Of one element of a piece with a box. A value that does not vary along the innermost dimension
// that is stored is kept in a register along it: it counts once for that dimension.
double element_cost(const Piece& piece);

}  // namespace tile
