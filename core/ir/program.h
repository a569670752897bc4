// Program: the symbolic level of the IR. Front ends make it, differentiation transforms it, bind
// turns it into a BoundProgram once shapes and element types are known.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/ir/body.h"
#include "core/ir/dtype.h"
#include "core/simplify/expr.h"
#include "core/support/diagnostic.h"
#include "core/support/id.h"

namespace tile {

using TensorId = Id<struct TensorTag>;

// How cells that several points reach combine (rule 4.2); assign allows one point for each cell.
enum class Aggregation : uint8_t { sum, product, max, min, assign };
std::string_view to_string(Aggregation aggregation);  // "+", "*", ">", "<", "="
// The aggregation that combines by add, mul, max or min; nullopt for another operation.
std::optional<Aggregation> aggregation_of(Op op);

// A read of a tensor inside a contraction: one index expression for each dimension. An index
// expression is affine over the statement's indices with coefficients over dimensions; `/`
// (exact_div) is the exact rational. Boundary rules other than in_range come from MFG and Lift.
enum class Boundary : uint8_t { in_range, clamp, mirror, wrap, constant };
struct SymbolicAccess {
  TensorId tensor;
  std::vector<Expr> index;  // beside affine forms, MFG and Lift use division, remainder and select
  std::vector<int> values;  // where values[d] >= 0 the index of dimension d is that operand of the
                            // load node instead (an integer); empty: none is
  std::vector<Boundary> boundary;  // one per dimension; empty: all in_range
  Span span;
};

// 0 <= form < bound (rule 4.1).
struct SymbolicConstraint {
  Expr form;
  Expr bound;
  Span span;
};

// TENSOR[out_index : out_size] = AGG(body), constraints default D.
struct SymbolicContraction {
  std::vector<std::string> indices;  // in order of first appearance; Node::slot of kind `index`
  std::vector<Expr> out_index;
  std::vector<Expr> out_size;
  Aggregation aggregation = Aggregation::sum;
  std::vector<SymbolicAccess> accesses;  // Node::slot of kind `load`
  Body body;                             // one result, or one for each component
  // k > 0: elements are tuples of k like-typed components: result c of the body is stored at
  // [out_index…, c]; the tensor has one more dimension, k, than out_size.
  int components = 0;
  // The body is typed already, as after bind (MFG, Lift): loads have the declared types of their
  // tensors, nothing is inferred, and the result has the results' type.
  bool typed = false;
  std::vector<SymbolicConstraint> constraints;
  std::optional<TensorId> default_tensor;
  Span default_span;
  bool no_defract = false;
  Span out_span;  // the output access
};

// A scalar body over whole tensors with NumPy broadcasting; Node::slot of kind `load` is a position
// in `operands`.
struct Elementwise {
  std::vector<TensorId> operands;
  Body body;  // one result
};

// Operations on whole tensors (rule 6.4). `sizes` holds the integer arguments in order.
enum class Function : uint8_t {
  shape,    // (T) -> i64 [rank]
  index,    // (T; axis) -> i64, the position along an axis, shape of T
  reshape,  // (T; dims…)
  gather,   // (T, I): out[i…, r…] = T[clamp(I[i…]), r…]
  scatter,  // (U, I; N): out[n, r…] = sum over I[i…] == n of U[i…, r…]; indices outside are clamped
  transpose,      // (T; axes…)
  concat,         // (A, B, …; axis)
  slice,          // (T; axis, start, stop, step)
  argmax,         // (T; axis) -> i64, the axis dropped, first wins, NaN counts as largest
  argmin,         // (T; axis), NaN counts as smallest
  sort,           // (T; axis) ascending, stable, NaN last
  argsort,        // (T; axis) -> i64, the permutation that sort applies
  cumsum,         // (T; axis)
  prng_uniform,   // (S; dims…) f32 in [0, 1), from the scalar seed S
  sum_to,         // (T, L): sums T down to the shape of L, undoing broadcasting
  reshape_like,   // (T, L): T's elements in row-major order in the shape of L
  unslice,        // (T, L; axis, start, stop, step): zeros of L's shape with T where slice reads
  permute_along,  // (T, P; axis): out[.., i, ..] = T[.., P[.., i, ..], ..], P a permutation along
                  // axis
};
std::string_view to_string(Function function);  // as programs spell it
std::optional<Function> find_whole_tensor_function(std::string_view name);
std::span<const Function> whole_tensor_functions();

struct Call {
  Function function = Function::reshape;
  std::vector<TensorId> tensors;
  std::vector<Expr> sizes;
  std::vector<Span> spans;  // of the arguments, tensors then sizes
};

// A tensor written out in the program: `values` row-major, integers or reals as the type says.
struct Literal {
  DType type = DType::f32;
  std::vector<int64_t> shape;
  std::vector<int64_t> integers;
  std::vector<double> reals;
};

struct Program;
// RESULT = operands[0] after `trips` (at least one) applications of `step`, a program of one
// output: its first input is the state, which its output is next, of the same shape and type; its
// other inputs are operands[1…], the same in every trip. Names of sizes mean in it what they mean
// around it. Lift's Iterate makes it.
struct Repeat {
  std::shared_ptr<const Program> step;
  std::vector<TensorId> operands;
  int64_t trips = 1;
};

struct Attribute {
  std::string name;
  std::vector<std::string> arguments;
};

using StatementKind = std::variant<SymbolicContraction, Elementwise, Call, Literal, Repeat>;

struct Statement {
  TensorId result;
  Span span;
  std::vector<Attribute> attributes;
  StatementKind what;
};

// A run-time scalar of MFG (`@param_i32 r(SLIDER, min=1, max=20, init=5)`): an input of rank 0 (or
// of shape [n] for a vector), whose value may be left out. Changing it compiles nothing.
struct RuntimeParameter {
  DType type = DType::i32;
  std::vector<double> init;  // one, or one for each component
  std::optional<double> min, max;
  std::string label;
};

// A tensor's declaration. Dimensions of an input are expressions that are a variable (a dimension
// name) or a constant; a tensor's other sizes may be named in size expressions by a variable
// "NAME.axis".
struct Tensor {
  std::string name;
  Span span;
  bool ranked = false;  // inputs: whether dims were declared
  std::vector<Expr> dims;
  std::vector<Span> dim_spans;
  // Set by differentiation and checked by bind; not part of the text.
  std::optional<TensorId> seed_of;  // an input: has this tensor's shape, and both hold floats
  bool differentiated = false;      // an input whose gradient is asked for: holds floats
  std::optional<DType> type;        // an input whose element type the program fixes
  std::optional<RuntimeParameter> parameter;
};

// A condition on sizes that only bind can decide, such as that Lift's Split(4) divides N. Bind
// fails at `span` with `message` and the two values where it does not hold.
struct SizeCheck {
  enum class Relation : uint8_t { equal, multiple_of, at_least };
  Expr left;
  Relation relation = Relation::equal;
  Expr right;
  std::string code, message;
  Span span;
};
// A size that follows from others: N where the program declares a dimension of 2*N + 1 elements.
struct SizeDefinition {
  std::string name;
  Expr value;
};

struct Program {
  SourcePtr source;
  IdVector<TensorId, Tensor> tensors;  // inputs first, then one per statement
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  std::vector<Span> output_spans;
  std::vector<Statement> statements;  // each tensor assigned before use
  std::vector<SizeDefinition> sizes;  // in order, then the checks, once the inputs are known
  std::vector<SizeCheck> checks;

  std::optional<TensorId> find(std::string_view name) const;
};

// The run-time parameters whose values the program's sizes are made of: another value is another
// program to bind. Size expressions name them by a variable.
std::vector<TensorId> sizing_parameters(const Program& program);

// The program with other outputs: tensors that its statements assign, by name. Throws Failure
// (stage run, "argument") for a name that is none.
Program with_outputs(const Program& program, std::span<const std::string> names);

// Tile text; parse_tile(print(p)) gives the same program (rule 2.5). Names generated by the
// compiler are legal Tile names.
std::string print(const Program& program);

}  // namespace tile
