// What becomes of the ranks' programs where one exchange is in pieces.
#pragma once

#include <string>
#include <vector>

#include "core/distribute/overlap/overlap.h"
#include "core/distribute/overlap/pieces/exchange_pieces.h"
#include "core/distribute/overlap/pieces/in_pieces.h"

namespace tile {

struct Piecewise {
  PartitionedProgram parts;
  std::vector<size_t> order;  // of the exchanges now, by their numbers before
  PiecedExchange what;
  // Whether several ranks add up the same terms, in kernels that need not be alike.
  bool is_replicated = false;
};

}  // namespace tile
