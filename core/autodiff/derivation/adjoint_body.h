// Reverse-mode differentiation of one scalar body.
#pragma once

#include <map>
#include <utility>

#include "core/ir/body.h"

namespace tile {

// A growing body that holds a statement's forward nodes and values made from them. Products with
// the literals 0 and 1 fold and selects with such arms are distributed over, so that a branch that
// contributes nothing contributes exactly nothing, whatever the other factor is.
class AdjointBody {
 public:
  // Starts with the nodes of `forward`; load slots stay as they are. `result_slot`: where
  // derivatives that use the forward value may load it; -1: they compute it again.
  explicit AdjointBody(const Body& forward, int result_slot = -1);

  Body body;
  NodeId result() const { return results_[0]; }  // the first forward value

  NodeId times(NodeId a, NodeId b);
  NodeId plus(NodeId a, NodeId b);  // none stands for no contribution
  // The operation on values of the body, folded where operands are literals.
  NodeId operation(Op op, std::vector<NodeId> args, Span span = {});

  // The sum over the results of d result / d (loads of `slot`) times the result's seed; -1: zero
  // everywhere. `seeds`: one for each result of the forward body.
  NodeId derivative(size_t slot, const std::vector<NodeId>& seeds);
  NodeId derivative(size_t slot, NodeId seed) { return derivative(slot, std::vector{seed}); }

 private:
  bool is_literal(NodeId id) const;
  bool is_literal(NodeId id, double value) const;
  NodeId product_of(NodeId a, NodeId b);
  NodeId fold_literals(Op op, const std::vector<NodeId>& args);
  NodeId fold_neutral(Op op, const std::vector<NodeId>& args);
  // d node / d operand number i, as nodes; -1: zero.
  NodeId local(NodeId node, size_t operand);
  IdVector<NodeId, bool> depends_on(size_t slot) const;

  size_t forward_count_;
  std::vector<NodeId> results_;
  int result_slot_;
  std::map<std::pair<NodeId, NodeId>, NodeId> products_;
};

// Finishes a body with one result, without unused nodes.
Body finished(Body body, NodeId result);

}  // namespace tile
