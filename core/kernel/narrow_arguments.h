// Arguments that begin where a kernel begins to read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/kernel/kernel.h"

namespace tile {

// Where a part begins in a tensor in bytes, a multiple of this: what code may expect of a tensor's
// own address holds of the part's.
inline constexpr int64_t kPartAlignment = 64;

// Gives the kernel, of each tensor that it reads and `may_begin_elsewhere` names, the part between
// the first and the last element that its outermost indices can be at, so that kernels that differ
// in a literal index (the steps of a loop written out, x[7, b] and x[8, b]) become one;
// kernel.begins says where the parts begin. The tensors are dense. Prepacked ones, and those that
// the kernel writes or fills with, stay whole.
void narrow_arguments(Kernel& kernel,
                      const std::function<bool(TensorId)>& may_begin_elsewhere = {});

// Of each of the kernel's arguments (arguments_of), in bytes, where it begins in the program's
// tensor; empty: all are whole.
std::vector<size_t> argument_begins(const Kernel& kernel);

}  // namespace tile
