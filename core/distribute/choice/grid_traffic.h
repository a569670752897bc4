// What an exchange of a tensor under a layout takes, counted without making its transfers.
#pragma once

#include <vector>

#include "core/distribute/exchange_kind.h"
#include "core/distribute/mesh/layout.h"

namespace tile {

// Cells of a tensor that each rank needs, in boxes that share none.
using NeededCells = std::vector<std::vector<Box>>;

class GridTraffic {
 public:
  GridTraffic(const Mesh& mesh, const Links& links);
  // The cost of the transfers that transfers_of() makes of the same; without its kind.
  ExchangeCost cost(const TensorLayout& layout, const NeededCells& needs,
                    int64_t element_bytes) const;
  const std::vector<int64_t>& coordinates(size_t rank) const { return at_[rank]; }

 private:
  class Receiver;

  const Mesh& mesh_;
  const Links& links_;
  std::vector<std::vector<int64_t>> at_;  // coordinates of each rank
  std::vector<size_t> stride_;            // ranks between neighbours along an axis
};

// Each rank's box of the layout, as needs.
NeededCells cells_of_layout(const TensorLayout& layout, const Shape& shape, const Mesh& mesh);

}  // namespace tile
