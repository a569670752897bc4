// What the parts of bind share: the program being bound, sizes, index forms, fresh tensors.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/bound.h"
#include "core/ir/program.h"
#include "core/simplify/simplify.h"

namespace tile {

// "[2, 3]"
std::string shape_text(const Shape& shape);
// Whether `e` has the form that BindContext::affine reads: quotients and choices, if any, are over
// dimensions alone.
bool has_affine_form(const Expr& e, const std::vector<std::string>& indices);

class BindContext {
 public:
  explicit BindContext(const Program& program);

  const Program& program;
  BoundProgram bound;  // its first tensors are the program's, under the same ids

  const BoundTensor& tensor(TensorId id) const { return bound.tensors[id]; }
  BoundTensor& edit(TensorId id) { return bound.tensors.edit(id); }
  const Shape& shape(TensorId id) const { return tensor(id).shape; }
  const std::string& name(TensorId id) const { return tensor(id).name; }

  // Declares inputs' dimensions (rules 2.2, 2.4).
  void bind_input(TensorId id, const InputType& type);

  // The sizes of the program around this one, which is a step of it.
  void take_sizes(const BindContext& around) { dimensions_ = around.dimensions_; }

  // Once the inputs are bound: sizes that follow from others, then the program's conditions on
  // sizes.
  void check_sizes();

  // Rule 3.2: the value of an integer expression over dimensions. `of` is the tensor that errors
  // name. Throws Failure: overflow, a division by zero.
  int64_t integer(const Expr& e, TensorId of, Span span);
  // The same for a tensor's size: not negative.
  int64_t size(const Expr& e, TensorId of, Span span);
  // Rule 3.1: an index expression as an affine form over `indices`.
  Affine affine(const Expr& e, const std::vector<std::string>& indices, TensorId of, Span span);

  // An index expression of MFG or Lift with every dimension as a number, simplified.
  Expr with_sizes(const Expr& e, const std::vector<std::string>& indices, const Ranges& ranges,
                  TensorId of, Span span);

  // Gives a tensor its type and shape. Throws Failure if it has too many elements.
  void declare(TensorId id, DType type, Shape shape, Span span);
  // A new tensor named after `like`.
  TensorId temporary(TensorId like, const std::string& suffix, DType type, Shape shape, Span span);
  void add(BoundStatement statement) { bound.statements.push_back(std::move(statement)); }

 private:
  std::optional<int64_t> lookup(std::string_view variable);
  void bind_dimension(TensorId id, size_t axis, int64_t size);
  int64_t size_value(const Expr& e, Span span);
  void check(const SizeCheck& check);

  struct Dimension {
    int64_t size = 0;
    TensorId tensor;
  };
  std::map<std::string, Dimension, std::less<>> dimensions_;
  std::map<std::string_view, TensorId> tensors_by_name_;  // of the program
};

// Accesses and pieces for the contractions that bind makes itself.
Access make_access(TensorId tensor, const std::vector<Affine>& index, Span span = {});
// Iterators i0, i1 … that a store at exactly these iterators bounds.
Piece pointwise_piece(TensorId output, size_t rank);
// The forms i0 … i(rank-1).
std::vector<Affine> iterator_forms(size_t rank);
Contraction make_contraction(TensorId output, Aggregation aggregation, DType accumulator,
                             Piece piece, Span span);
// The type that values of an output type are aggregated in (rule 4.8).
DType accumulator_type(Aggregation aggregation, DType output);

// One statement each.
void bind_contraction(BindContext& context, const Statement& statement,
                      const SymbolicContraction& contraction);
void bind_elementwise(BindContext& context, const Statement& statement, const Elementwise& what);
void bind_call(BindContext& context, const Statement& statement, const Call& call);
void bind_literal(BindContext& context, const Statement& statement, const Literal& literal);
void bind_repeat(BindContext& context, const Statement& statement, const Repeat& repeat);

}  // namespace tile
