// Segments: the stretches of a rank's program between the beginnings and ends of its exchanges, as
// programs of their own. Each is compiled and run like any other program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ir/ranks/rank_program.h"

namespace tile {

struct Segment {
  BoundProgram program;
  // Which tensors of the rank's program the inputs and outputs are.
  std::vector<TensorId> inputs, outputs;
};

// What a rank does, in order: runs a segment, begins an exchange, ends it.
struct SegmentStep {
  enum class Kind : uint8_t { segment, begin, end } kind;
  size_t number = 0;  // of the segment or the exchange
};
struct SegmentedProgram {
  std::vector<Segment> segments;
  std::vector<SegmentStep> steps;
};

// A segment's outputs are what later segments, exchanges or the program's outputs need of it. One
// ends where an exchange begins or ends, and before a statement that reads a tensor of which the
// segment sets parts.
SegmentedProgram segments_of(const RankProgram& rank);

}  // namespace tile
