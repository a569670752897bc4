// The guard over what grouping makes of a program. What would break it the fusions refuse before
// (step_order.h, broken_rows), so that it throws InternalError.
#pragma once

#include <vector>

#include "core/kernel/kernel.h"

namespace tile {

// Every tensor that a step reads is an input, a constant or made by a step before it, or in a
// kernel by a stage before; each is made once, and all outputs are. Holds after every fusion.
void verify_order(const std::vector<Step>& steps, const BoundProgram& program);

// The same of finished kernels by what they write; each kernel keeps its own rules (verify of
// kernel.h) and lists what it reads and writes; its stages have the points and the conditions of
// the program's statements and read inside of every tensor.
void verify(const std::vector<Step>& steps, const BoundProgram& program);

}  // namespace tile
