// Contractions whose terms are divided among ranks: what their sums over ranks take.
#pragma once

#include <cstdint>
#include <vector>

#include "core/distribute/distribution.h"
#include "core/distribute/exchange_kind.h"

namespace tile {

// With iterators c0, c1 … over the cells of a tensor of so many dimensions, which it stores.
Piece cells_of(TensorId result, size_t dims);
// Adds a load of the same cell of another tensor.
NodeId load_of(Piece& piece, TensorId tensor, DType type);

// The layout without the axes: what a dimension is cut over last goes first.
TensorLayout without(const TensorLayout& layout, const std::vector<size_t>& axes, const Mesh& mesh);

// The partial results of a contraction on each rank.
struct PartialSums {
  const std::vector<Box>& boxes;
  std::vector<size_t> axes;  // over which terms are divided
  int64_t element_bytes = 0;
};
// Where the ranks add up what is to lie under `layout` then. Sums that every rank is to have are
// added up in parts, each by one rank, and gathered: that moves 2 / ranks of what all parts for all
// ranks take, but has twice the messages.
TensorLayout layout_of_sums(const BoundProgram& program, const Contraction& c,
                            const TensorLayout& layout, const PartialSums& sums, const Mesh& mesh,
                            const Links& links);

// Sums of no terms are the zeros that cells without terms get; other aggregations' identities are
// not, and defaults are not either: which cells have terms is then summed up as well.
bool needs_marks(const BoundProgram& program, const Contraction& c);

}  // namespace tile
