// The shapes of a program's tensors as expressions over the sizes of its inputs, before any size is
// known: what a host with symbolic sizes needs to plan around a call.
#pragma once

#include <optional>
#include <vector>

#include "core/ir/program.h"

namespace tile {

using SymbolicShape = std::vector<Expr>;

// Variables are dimension names and "NAME.axis" of inputs that declare none. Where
// bind accepts the inputs, its shapes are the values of these. nullopt where the shape depends on
// more than sizes (on which of two dimensions is broadcast, on a parameter's value, on a rank).
IdVector<TensorId, std::optional<SymbolicShape>> symbolic_shapes(const Program& program);

}  // namespace tile
