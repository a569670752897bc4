// The reference value of a scalar body at one point: the one loop over nodes that the interpreters
// and constant folding share. Slow and exact.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ir/body.h"
#include "core/ir/scalar.h"

namespace tile {

// What a body's leaves are where it is evaluated.
class Leaves {
 public:
  virtual ~Leaves() = default;
  // The value of a node of kind size or index.
  virtual Scalar value(const Node& node) = 0;
  // The element that a load reads; `operands` are its index values. False: the point is not valid.
  virtual bool load(const Node& node, std::span<const Scalar> operands, Scalar& element) = 0;
  // Before each iteration of a fold.
  virtual void iterate(const Node& fold, int64_t counter);
};

// `values` receives one value for each node (none for folds). False as soon as a load says so.
bool evaluate_body(const Body& body, Leaves& leaves, IdVector<NodeId, Scalar>& values);

// What a fold's result or a second term makes of a value: rounds or wraps to the value's type.
Scalar combine_values(Op op, const Scalar& old, const Scalar& term);

}  // namespace tile
