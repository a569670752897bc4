// Reverse-mode differentiation of one scalar body.
#pragma once

#include "core/ir/body.h"

namespace tile {

// A growing body that holds a statement's forward nodes and values made from them. Products with
// the literals 0 and 1 fold and selects with such arms are distributed over, so that a branch that
// contributes nothing contributes exactly nothing, whatever the other factor is.
class AdjointBody {
 public:
  // Starts with the nodes of `forward`; load slots stay as they are.
  explicit AdjointBody(const Body& forward);

  Body body;
  NodeId result() const { return result_; }  // the forward value

  NodeId times(NodeId a, NodeId b);
  NodeId plus(NodeId a, NodeId b);  // -1 stands for no contribution

  // d result / d (loads of `slot`) times `seed`; -1: zero everywhere.
  NodeId derivative(int slot, NodeId seed);

 private:
  bool is_literal(NodeId id, double value) const;
  // d node / d operand number i, as nodes; -1: zero.
  NodeId local(NodeId node, size_t operand);
  std::vector<bool> depends_on(int slot) const;

  size_t forward_count_;
  NodeId result_;
};

// Finishes a body with one result, without unused nodes.
Body finished(Body body, NodeId result);

}  // namespace tile
