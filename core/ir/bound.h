// BoundProgram: a program with shapes and element types; every statement except sort, scatter and
// repeat is a Contraction. The tensor-level passes rewrite it, the reference interpreter executes
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/ir/affine.h"
#include "core/ir/body.h"
#include "core/ir/program.h"
#include "core/support/persistent_vector.h"

namespace tile {

using Shape = std::vector<int64_t>;
int64_t element_count(const Shape& shape);  // throws Overflow
// Element strides of a dense row-major tensor. Throws Overflow.
std::vector<int64_t> dense_strides(const Shape& shape);

enum class TensorRole : uint8_t { input, temporary, output };

struct BoundTensor {
  std::string name;
  DType type = DType::f32;
  Shape shape;
  TensorRole role = TensorRole::temporary;
  // Elements known at compile time (a literal): dense, row-major, in the type's own bytes; the role
  // is temporary and no statement sets it.
  std::shared_ptr<const std::vector<std::byte>> constant;
  // When set, this tensor is another's elements in row-major order under a new shape (reshape): no
  // copy.
  std::optional<TensorId> view_of;
  // Of an f32 temporary whose last dimension but one has extent 2: index 0 there has values that
  // tf32 holds, index 1 what their rounding left. Products of such factors may be those of tf32.
  bool tf32_parts = false;
  // Of an input: every run gives it the same elements, so that a copy of it may be made once.
  bool fixed = false;
};
// Kernels and passes copy the table freely: copies share what they leave alone.
using BoundTensors = PersistentVector<TensorId, BoundTensor>;

// One dimension of an access: an affine form over the piece's iterators or, where value >= 0, that
// operand of the load node (it has an integer type). in_range: the point is valid only if the
// index is an integer inside the dimension (rule 4.1); inside a fold's region an in_range value is
// inside by construction. Other boundaries apply to integral indices; `constant` reads zero
// outside (another fill is a select in the body).
struct Index {
  Affine affine;
  int value = -1;
  Boundary boundary = Boundary::in_range;
};
struct Access {
  TensorId tensor;
  std::vector<Index> index;
  Span span;
};

// lo <= form < hi; `integral`: the form must be an integer too.
struct Constraint {
  Affine form;
  int64_t lo = 0;
  int64_t hi = 0;
  bool integral = false;
};

// The extents of iterators, each of which runs over [0, extent).
using IterationBox = IdVector<IteratorId, int64_t>;

// Domain and body. Iterators are all integers that satisfy the constraints and the in_range
// accesses; `box`, filled by the bounds pass, holds the iterators' ranges [0, extent) and then
// needs no constraint.
struct Piece {
  IdVector<IteratorId, std::string> iterators;
  IterationBox box;  // empty before the bounds pass
  size_t parallel_dims =
      0;  // after the reduce pass: the first `parallel_dims` iterators fix the output cell
  std::vector<Constraint> constraints;
  std::vector<Access> stores;  // one for each output; all affine
  std::vector<Access> loads;   // Node::slot of kind `load`
  Body body;  // one result for each output, typed; Node::slot of kind index: an iterator

  // Whether the iterator is a parallel dimension; none is not.
  bool is_parallel(IteratorId u) const { return u.index() < parallel_dims; }
};

struct Contraction {
  // One for each result of the bodies. A tensor may stand here several times: its stores then name
  // disjoint cells (the components of a tuple).
  std::vector<TensorId> outputs;
  Aggregation aggregation = Aggregation::assign;
  DType accumulator =
      DType::f32;             // the type aggregated in; converted to the output's once (rule 4.8)
  std::vector<Piece> pieces;  // pieces of one contraction share the aggregation
  std::optional<TensorId> fill;  // the `default` tensor: uncovered cells; else 0
  bool normalized = false;  // after reduce and defract: every access is in range on the domain,
                            // no cell has two parallel points, pieces share no cell
  bool promised_injective = false;  // no_defract
  Span span;
};

struct Sort {
  TensorId source;
  TensorId result;
  int64_t axis = 0;
  bool indices = false;  // argsort
  Span span;
};
// result[n, r…] += updates[i…, r…] for clamp(indices[i…]) == n, in row-major order of i.
struct Scatter {
  TensorId updates;
  TensorId indices;
  TensorId result;
  Span span;
};

struct BoundProgram;
// result = operands[0] after `trips` (at least one) applications of `step`: a whole program, with
// passes and kernels of its own. Its inputs are the state and operands[1…], dense; its one output
// is the next state.
struct BoundRepeat {
  std::shared_ptr<const BoundProgram> step;
  std::vector<TensorId> operands;
  TensorId result;
  int64_t trips = 1;
  Span span;
};

using BoundStatement = std::variant<Contraction, Sort, Scatter, BoundRepeat>;

struct BoundProgram {
  SourcePtr source;
  BoundTensors tensors;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;  // a tensor may be input and output, or an output twice
  std::vector<BoundStatement> statements;
};

// The level's text form, which parse_bound reads back; positions are not kept.
std::string print(const BoundProgram& program);
BoundProgram parse_bound(SourcePtr source);
// Throws InternalError naming the first broken rule of this header.
void verify(const BoundProgram& program);

// What bind needs to know of an input.
struct InputType {
  DType type = DType::f32;
  Shape shape;
  // The value of a run-time parameter that sizes are made of (see sizing_parameters); its initial
  // value where none is given.
  std::optional<int64_t> value = {};
};

}  // namespace tile
