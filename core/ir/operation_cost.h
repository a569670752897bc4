// What a scalar operation costs: two columns of operations.def, from which everything that prices
// operations takes its figures.
#pragma once

#include <algorithm>

#include "core/ir/operation.h"

namespace tile {

// Simple operations are what an x86-64 core does twice in a cycle, and a division or a root is
// about what vdivps and vsqrtps of 256 bits keep their unit busy (Intel 64 and IA-32 Architectures
// Optimization Reference Manual). Functions are estimates, in four classes, from the length of the
// polynomials of backends/cpu/math, and on a GPU one figure for all, from that of CUDA's library.
// They were never fitted apart: `tile-bench study` judges the model as a whole.
struct OperationCost {
  double cycles;        // of one core, for a vector register of f32 values
  double instructions;  // of one thread of a GPU
};
const OperationCost& cost_of(Op op);

// Cycles of the operation where few others are beside it: those that wait for each other take one
// each at least.
inline double cycles_in_turn(Op op) { return std::max(1.0, cost_of(op).cycles); }
// A division, a root or a function: worth keeping rather than computing again.
constexpr double kDearCycles = 8;
inline bool is_dear(Op op) { return cost_of(op).cycles >= kDearCycles; }

}  // namespace tile
