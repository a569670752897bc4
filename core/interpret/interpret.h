// The reference interpreter: brute force over the valid points of each contraction, found in its
// own way and sharing nothing with lowering. It runs a BoundProgram before and after every
// tensor-level pass.
#pragma once

#include <vector>

#include "core/ir/bound.h"
#include "core/ir/scalar.h"

namespace tile {

struct InterpretOptions {
  // Candidate points visited, and iterations of folds, before a `limit` error (compile).
  int64_t point_limit = int64_t{1} << 40;
  // Bytes of temporaries, outputs and their accumulators before a `limit` error (compile).
  int64_t byte_limit = int64_t{1} << 34;
  // Terms are aggregated in the order of the points' iterators instead of the order in which points
  // are found fastest, which depends on extents. All points of a piece are then kept at once.
  bool in_order = false;
};

struct Interpretation {
  std::vector<HostTensor> outputs;  // in the order of program.outputs
  // For each output the largest sum of absolute terms aggregated into each cell, as f64, shape of
  // the output: rounding bounds of the differential tests are eps times it. Empty unless asked for.
  std::vector<HostTensor> magnitudes;
  // Valid points visited over all contractions: the useful work.
  int64_t points = 0;
};

// Inputs in the order of program.inputs, of the types and shapes that were bound. Throws Failure:
// a limit; two points in one cell of an `=` (stage compile).
Interpretation interpret(const BoundProgram& program, const std::vector<HostTensor>& inputs,
                         const InterpretOptions& options = {}, bool with_magnitudes = false);

}  // namespace tile
