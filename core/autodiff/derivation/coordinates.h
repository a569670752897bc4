// Coordinates that name a contraction's points, each inside a range that the text knows.
#pragma once

#include <vector>

#include "core/autodiff/derivation/derivation.h"

namespace tile {

// 0 <= form < size and form is an integer, at every valid point.
struct Coordinate {
  Expr form;
  Expr size;
  bool plain = false;  // form is one index
};

// As many as there are indices and linearly independent, so that two points differ in one of them:
// indices that have a bound of their own, in order, then forms of the output, the accesses and the
// constraints. Fewer if an index is not bounded.
std::vector<Coordinate> coordinates_of(const Derivation& derivation,
                                       const SymbolicContraction& contraction);

// A typed contraction that assigns, over the same points, whose output has a cell for each place of
// the coordinates; it has no body.
SymbolicContraction over_cells(const SymbolicContraction& contraction,
                               const std::vector<Coordinate>& cells, Span span);
// The read of such a tensor at the point's own cell; component -1: its elements are no tuples.
SymbolicAccess cell_access(TensorId tensor, const std::vector<Coordinate>& cells, int component,
                           Span span);

// Whether two points that agree in all of `forms` agree in `form` too.
bool determines(const std::vector<Expr>& forms, const Expr& form,
                const std::vector<std::string>& indices);

}  // namespace tile
