// How a kernel's arguments lie in memory.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/kernel/kernel.h"

namespace tile {

// Element strides of each tensor that the kernel reads or writes; empty: dense
// row-major.
using Strides = IdVector<TensorId, std::vector<int64_t>>;

// The tensors that are a kernel's arguments, in the nest's order: those of kernel.reads that are
// not written, then kernel.writes.
std::vector<TensorId> arguments_of(const Kernel& kernel);

// An argument as the code of a kernel sees it.
struct ArgumentLayout {
  DType type = DType::f32;
  Shape shape;
  std::vector<int64_t> strides;  // in elements, one for each dimension of the shape
  // The tensor's strides forbid the dimensions that the kernel has merged: shape and strides are
  // those of the program's tensor, and indices are split again.
  bool split = false;
};
using ArgumentLayouts = std::map<TensorId, ArgumentLayout>;
ArgumentLayout argument_layout(const Kernel& kernel, TensorId id, const Strides& strides);
// Of all arguments.
ArgumentLayouts argument_layouts(const Kernel& kernel, const Strides& strides = {});

// For each merged dimension the first of those of `shape` that it is; one more for the end. Nothing
// where the shapes do not fit.
std::vector<size_t> merged_from(const Shape& merged, const Shape& shape);

}  // namespace tile
