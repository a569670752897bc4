// How an executable's launches read inputs that are not dense, where they are or in a dense copy,
// and write outputs that are not. One decision for all that touch a tensor, made from the program
// and the layouts alone, as kernels are lowered for strides before memory is planned.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/lower/lower.h"
#include "runtime/engine/executable.h"

namespace tile {

// Element strides with which `shape` names, in row-major order, the elements of a tensor of these
// strides and another shape; nullopt where none do. Both shapes have as many elements, not zero.
std::optional<std::vector<int64_t>> strides_in_shape(const Shape& from,
                                                     const std::vector<int64_t>& strides,
                                                     const Shape& shape);

// What inputs are bound with.
std::vector<InputType> types_of(const std::vector<InputLayout>& inputs);

// Of a program's inputs, with these strides; without an element for each all are dense.
std::vector<InputLayout> layouts_of_inputs(const BoundProgram& program,
                                           const std::vector<std::vector<int64_t>>& strides);

// The inputs, by number, that some statement or output needs dense: a sort, an output that is an
// input, a view in a shape that the strides do not take.
std::vector<size_t> inputs_to_densify(const Executable& executable);

// Forgets the strides of outputs that some launch cannot write or read with them: runs then copy.
void drop_unfit_output_strides(Executable& executable);

// Element strides by TensorId of the executable's program, as its launches are given the tensors:
// of inputs that are read, and outputs that are written, where they are, and of views of them.
// Empty: dense.
Strides strides_of(const Executable& executable);

}  // namespace tile
