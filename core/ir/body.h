// Scalar bodies: the value that a statement computes at one point, as an SSA block. A value used
// twice is one node, so that fusing, inlining and scheduling cannot change it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/ir/dtype.h"
#include "core/ir/operation.h"
#include "core/simplify/expr.h"
#include "core/support/diagnostic.h"
#include "core/support/id.h"

namespace tile {

using NodeId = Id<struct NodeTag>;

enum class NodeKind : uint8_t {
  integer,  // the literal `integer`; weakly typed before bind (rule 5.3)
  real,     // the literal `real`
  size,     // the integer expression `expr` over dimensions (before bind) or indices and parameters
            // (in a Nest); before bind weakly typed
  index,    // the value of index number `slot` of the piece; i64, weak before bind
  load,     // the element read by access number `slot`; args: the access's index values, if any
  operation,  // op(args…)
  fold,       // a loop with carried values: see Fold below
  argument,   // value number `slot` given to the fold's region; only inside a region
  component,  // carried value number `slot` of the fold args[0]
};

struct Body;

// Fold (a node of kind `fold`, type none, only used by `component` nodes): for counter in
// [begin, end), in order, carried = region(counter, carried…, captured…). args: begin, end (i64;
// end <= begin runs zero times), the `slot` carried values' starts, then captured values of the
// enclosing body. The region is closed: its nodes are its own, argument 0 is the counter (i64),
// 1 … slot the carried values, then the captured ones; its results are the next carried values, of
// the starts' types. Its indices and accesses are the enclosing piece's. With op `add`, `mul`,
// `max` or `min` instead of `ident`, the results are combined with the carried values by op, in
// any order, and the region does not use arguments 1 … slot.
//
// Text: "%5 = fold add 1 %0 %1 %2 %3 { %0:i64 = argument 0; …; yield %7 }; %6:f32 = component 0
// %5", the number being `slot`; in a Nest the counter's name stands before the region: "[k] {".

struct Node {
  NodeKind kind = NodeKind::integer;
  Op op = Op::ident;
  DType type = DType::none;  // none before bind, except the target of a cast
  std::vector<NodeId> args;  // earlier nodes only
  int64_t integer = 0;
  double real = 0;
  size_t slot = 0;  // of the kinds that name it
  Expr expr;        // kind size; in a Nest also a fold's counter, a variable that `size` nodes and
                    // accesses of its region may use
  std::shared_ptr<const Body> region;  // kind fold
  Span span;
};

// Typed bodies (after bind): a load has the tensor's storage type; operands and results have
// compute types (see compute_type; from narrow-bodies on integers may be narrower) or bool as the
// table says, casts are explicit nodes, and integer and real literals carry their type. 64-bit
// unsigned literals are stored as their bits.
struct Body {
  IdVector<NodeId, Node> nodes;
  std::vector<NodeId> results;

  NodeId add(Node node) { return nodes.add(std::move(node)); }
  NodeId integer(int64_t value, DType type = DType::none, Span span = {});
  NodeId real(double value, DType type = DType::none, Span span = {});
  NodeId size(Expr expr, DType type = DType::none, Span span = {});
  NodeId index(size_t slot, DType type = DType::none, Span span = {});
  NodeId load(size_t slot, DType type = DType::none, Span span = {},
              std::vector<NodeId> values = {});
  NodeId operation(Op op, std::vector<NodeId> args, DType type = DType::none, Span span = {});
  NodeId cast(NodeId value, DType type, Span span = {});  // no node if it has that type already
  NodeId argument(size_t slot, DType type, Span span = {});
  NodeId component(NodeId fold, size_t slot, DType type, Span span = {});
  const Node& operator[](NodeId id) const { return nodes[id]; }
};

// The float below a cast to a wider float, which storing in the narrower type takes back; any other
// node itself.
NodeId before_widening(const Body& body, NodeId id);

// What stands for a node of a copied body: a node of the copy, or none to copy it. The node's
// operands are those of the copy already.
using Leaf = std::function<NodeId(Body&, const Node&)>;

// Copies into `body` the nodes of `from` that `root` needs, `leaf` mapping loads (and anything else
// it wants to replace: none to copy); shared nodes stay shared. Returns the copy of root.
// Regions of folds are copied too, `leaf` being asked about their nodes with the region as body.
NodeId graft(Body& body, const Body& from, NodeId root, const Leaf& leaf);

// The whole body with `leaf` asked about every node that a result needs, regions included.
Body rewritten(const Body& body, const Leaf& leaf);

// Every node, those of regions after the fold that holds them.
void visit_nodes(const Body& body, const std::function<void(const Node&)>& visit);
// Changes nodes in place, regions included; operands and regions are not to be changed.
void change_nodes(Body& body, const std::function<void(Node&)>& change);

// Drops nodes that no result needs and merges equal nodes (common subexpressions), in regions too;
// a fold captures what its region uses, each value once.
Body tidied(const Body& body);

}  // namespace tile
