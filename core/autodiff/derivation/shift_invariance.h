// Tensors that carry no gradient because a shift of them, or a scaling, changes nothing.
#pragma once

#include <vector>

#include "core/autodiff/derivation/symbolic_shape.h"
#include "core/ir/program.h"

namespace tile {

// Whether the text proves that `of` does not change when the elements of a tensor are moved, each
// by an amount of its own (rule 7.1a): by addition, as the maximum that a softmax subtracts, or by
// a factor, as a sum that a quotient of sums divides by. `shapes`: of all tensors.
class ShiftInvariance {
 public:
  ShiftInvariance(const Program& program, TensorId of, const SymbolicShapes& shapes);

  bool holds(TensorId tensor) const;

 private:
  const Program& program_;
  TensorId of_;
  const SymbolicShapes& shapes_;
  IdVector<TensorId, bool> needed_;  // of each tensor: `of` is made of it
};

}  // namespace tile
