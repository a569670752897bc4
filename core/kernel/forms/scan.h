// Reductions whose range grows with one parallel dimension by one value at a time (prefix and
// suffix sums): the accumulator of a cell is carried to the next, which makes the work linear.
#pragma once

#include <optional>

#include "core/kernel/schedule.h"

namespace tile {

// Cell i of the parallel dimension takes the reduction's values r <= i - offset, or, for a suffix,
// r >= i + offset.
struct ScanForm {
  size_t parallel_dim = 0;
  size_t reduction = 0;
  bool suffix = false;
  int64_t offset = 0;
};
// nullopt: the piece is no such reduction, or a load moves with the parallel dimension.
std::optional<ScanForm> scan_form(const Piece& piece, const Contraction& contraction);

}  // namespace tile
