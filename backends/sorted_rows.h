// The rows that `sort` and `argsort` put in order: lines of a dense tensor along one axis.
#pragma once

#include <bit>
#include <cstdint>

#include "core/ir/bound.h"

namespace tile {

struct SortedRows {
  int64_t count = 1;
  int64_t length = 1;  // elements of a row
  int64_t step = 1;    // elements from one of a row to the next

  // The length of a sorting network.
  int64_t padded() const {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(length)));
  }
};

inline SortedRows sorted_rows(const BoundTensor& tensor, int64_t axis) {
  SortedRows rows;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (static_cast<int64_t>(d) == axis) {
      rows.length = tensor.shape[d];
    } else {
      rows.count *= tensor.shape[d];
      if (static_cast<int64_t>(d) > axis) rows.step *= tensor.shape[d];
    }
  }
  return rows;
}

}  // namespace tile
