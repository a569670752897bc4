// What a program's text alone says of its tensors' shapes.
#pragma once

#include <optional>
#include <vector>

#include "core/ir/program.h"

namespace tile {

// Either one extent for each dimension (nullopt: the text does not say), or, of a tensor of unknown
// rank, the tensor whose shape it has.
struct SymbolicShape {
  bool ranked = false;
  std::vector<std::optional<Expr>> dims;  // ranked only
  TensorId like;                          // otherwise
};

using SymbolicShapes = IdVector<TensorId, SymbolicShape>;

// Whether both are the same for every choice of inputs; false also where the text does not say.
bool provably_equal(const SymbolicShape& a, const SymbolicShape& b);

SymbolicShape shape_of_input(const Tensor& input, TensorId id);
// The shape of a statement's result, `shapes` holding those of the tensors before it.
SymbolicShape shape_of_result(const Statement& statement, const SymbolicShapes& shapes);

}  // namespace tile
