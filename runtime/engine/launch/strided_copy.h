// Layouts of tensors in memory: bytes, extents, copies by the host.
#pragma once

#include <cstddef>

#include "runtime/engine/executable.h"

namespace tile {

size_t byte_count(const TensorView& tensor);  // of its elements

// The bytes between a tensor's first and one past its last, whatever its strides.
struct Extent {
  const std::byte* begin;
  const std::byte* end;
};
Extent extent_of(const TensorView& tensor);  // throws Overflow
bool overlap(const TensorView& a, const TensorView& b);

// Of tensors in host memory.
void copy_to_dense(const TensorView& from, std::byte* to);
void copy_from_dense(const std::byte* from, const TensorView& to);

}  // namespace tile
