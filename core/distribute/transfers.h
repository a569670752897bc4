// Who sends what to whom, so that every rank gets what it needs of a tensor.
#pragma once

#include <cstdint>
#include <vector>

#include "core/distribute/mesh/mesh.h"
#include "core/distribute/needs.h"
#include "core/ir/ranks/box.h"

namespace tile {

struct Transfer {
  size_t sender = 0, receiver = 0;
  Box cells;                // of the tensor
  std::vector<int64_t> at;  // the place of the first one in what the receiver keeps
};

// `boxes`: what each rank has; together they hold every cell. `partial`: the axes along which each
// rank's elements are parts of sums, all of which are sent. `needs`: of each rank. A rank takes
// from itself what it has, and the rest from the rank that differs from it along the fewest axes.
// Parts of a sum come in the order of their coordinates along `partial`, for every rank the same.
std::vector<Transfer> transfers_of(const Mesh& mesh, const std::vector<Box>& boxes,
                                   const std::vector<size_t>& partial,
                                   const std::vector<std::vector<NeedPart>>& needs);

}  // namespace tile
