// in_pieces: programs of ranks -> programs whose gathers, and reductions to owners, are several
// exchanges beside the contractions that need or make what they move. It stands behind the
// partition and before each rank's own overlap, and is the affair of all ranks together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/distribute/overlap/overlap.h"
#include "core/distribute/partition.h"

namespace tile {

// One exchange that is in pieces, for a reader.
struct PiecedExchange {
  size_t exchange = 0;  // its number in the program without pieces
  size_t pieces = 0;
  bool gathers = false;              // else sums are scattered
  std::vector<std::string> results;  // of the contractions that are in pieces with it
  double before_ns = 0, now_ns = 0;  // of both, on the slowest rank, as the model has it
};
struct PiecewiseProgram {
  PartitionedProgram parts;  // its statements' summaries are those of the undivided program
  std::vector<PiecedExchange> pieces;
};

// All ranks that are given the same make the same of it: exchanges stay alike. No term is added to
// another sum, or in another order: cells keep their values bit by bit, as far as the order of a
// sum's terms does not depend on the kernel. `automatic`: where the model expects that it takes
// less time. Throws Overflow.
PiecewiseProgram in_pieces(PartitionedProgram parts, const OverlapOptions& options);

// Empty: none are in pieces. `names` of the exchanges of the program without pieces.
std::string explain_pieces(const std::vector<PiecedExchange>& pieces,
                           const std::vector<std::string>& names);

}  // namespace tile
