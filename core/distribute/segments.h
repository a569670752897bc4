// Segments: the stretches of a rank's program between its exchanges, as programs of their own. Each
// is compiled and run like any other program.
#pragma once

#include <vector>

#include "core/ir/ranks/rank_program.h"

namespace tile {

struct Segment {
  BoundProgram program;
  // Which tensors of the rank's program the inputs and outputs are.
  std::vector<TensorId> inputs, outputs;

  bool empty() const { return program.statements.empty(); }
};

// One before each exchange and one behind the last: exchanges.size() + 1, of which some may be
// empty. A segment's outputs are what later segments, exchanges or the program's outputs need of
// it.
std::vector<Segment> segments_of(const RankProgram& rank);

}  // namespace tile
