// Translation of a piece's body into a statement's.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "core/ir/analysis/index_value.h"
#include "core/lower/context/iteration_state.h"

namespace tile::lowering {

// What the loops around say of a piece.
struct LoopContext {
  const Piece& piece;
  std::function<IndexValue(IteratorId iterator)> index;
  std::function<Expr(const Affine&)> value;
  std::function<std::optional<nest::Access>(size_t load)>
      packed;  // the copy that holds its element
  std::function<const Shape&(TensorId)> shape;
  std::function<Expr(TensorId, size_t dimension)> extent;
  // The value of a literal that launches decide.
  std::function<std::optional<IndexValue>(const Node&)> literal;
  std::function<nest::BufferId(TensorId)> buffer;
  // Gives an access of the tensor's elements the buffer's indices.
  std::function<void(TensorId, nest::Access&)> place;
  // A tensor's one element, where it is a run-time parameter of the nest.
  std::function<std::optional<IndexValue>(TensorId)> scalar;
  Replacement replacement;
  // A fold whose results are already known, and how to read them.
  const Node* known_fold = nullptr;
  std::function<nest::Access(size_t result)> fold_result = {};
};

// The index that a boundary rule gives (rule 2.3 of core/language/lift/REFERENCE.md); `constant`
// stays inside as clamp does.
Expr bounded_index(const Expr& e, const Expr& extent, Boundary boundary);

// Copies what one result of a piece's body needs into `into`.
class BodyLowering {
 public:
  BodyLowering(const LoopContext& outside, Value& into);
  NodeId run(const Body& from, NodeId root);
  // The node as an index expression; nullopt: it is a value.
  std::optional<IndexValue> index_of(const Body& from, NodeId id);
  // A result of one round of a fold of `from`, at that value of its counter.
  NodeId run_round(const Body& from, const Node& fold, size_t result, const IndexValue& counter);

 private:
  // Of a node of the piece's body: its copy, if there is one yet, and its value as an index.
  struct Known {
    NodeId copy;
    std::optional<IndexValue> integer;
  };
  // One body being copied: the piece's own or the region of a fold.
  struct Copy {
    Copy* parent;
    const Body* from;
    Body& into;
    IdVector<NodeId, Known> nodes;
    size_t own;  // arguments that are not captured
    int depth;
    std::vector<NodeId> captured_from;   // nodes of the parent's `from`
    std::vector<NodeId> captures;        // nodes of the parent's `into`, and
    std::map<NodeId, NodeId> arguments;  // the arguments that they are here
    std::optional<IndexValue> counter = std::nullopt;
    bool spliced = false;  // written into the parent's copy: captures are its nodes

    void add_capture(NodeId id, NodeId argument);
  };

  void copy_nodes(Copy& c, const std::vector<NodeId>& roots);
  Known known(Copy& c, const Node& n);
  Known operation(Copy& c, const Node& n);
  Known literal(Copy& c, const Node& n, const IndexValue& value);
  NodeId operation_node(Copy& c, const Node& n);
  Known argument(Copy& c, const Node& n);
  NodeId fold(Copy& c, const Node& n);
  NodeId load(Copy& c, const Node& n);
  NodeId read_element(Copy& c, const Node& n, const tile::Access& access);
  NodeId node(Copy& c, NodeId id);
  std::optional<IndexValue> integer(const Copy& c, NodeId id) const;
  NodeId capture(Copy& c, NodeId id);
  NodeId from_top(Copy& c, NodeId id);
  size_t load_slot(const Copy& c, nest::Access access);

  const LoopContext& outside_;
  std::vector<nest::Access>& loads_;
  Copy top_;
};

}  // namespace tile::lowering
