// What core/passes/normalize/domains.h verifies by bounds, by visiting every point.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/ir/bound.h"
#include "core/ir/scalar.h"
#include "core/kernel/kernel.h"

namespace tile::test {

// Where a normalized contraction breaks a rule at some point: an index outside of its tensor, a
// store that two owners share. Empty if nowhere, or if it has too many points to visit.
std::string broken_domain(const Contraction& c, const BoundTensors& tensors);

// What a program's points touch: by tensor, row-major positions.
struct Touched {
  std::map<TensorId, std::set<int64_t>> cells;     // that some point writes
  std::map<TensorId, std::set<int64_t>> elements;  // of inputs that some point reads
  std::map<TensorId, int64_t> points;              // by tensor that a statement makes
  bool whole = true;  // false: left out what has too many points, or names elements by values
};
Touched touched_by(const BoundProgram& program);
// How many points a normalized contraction has; -1: too many to count.
int64_t count_points(const Contraction& c);

// The results of steps, each stage by the reference interpreter on what its piece says. Steps need
// not be finished.
std::vector<HostTensor> interpret_steps(const std::vector<Step>& steps, const BoundProgram& program,
                                        const std::vector<HostTensor>& inputs);

}  // namespace tile::test
