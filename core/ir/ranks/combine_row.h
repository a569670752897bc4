// Neighbouring elements combined with others at the speed of memory.
#pragma once

#include <cstddef>

#include "core/ir/dtype.h"
#include "core/ir/operation.h"

namespace tile {

// row[i] = op(row[i], part[i]) for so many cells, as `evaluate` does it cell by cell in the type's
// compute type (up to payloads of NaN). `op` is add, mul, max or min. False, and nothing is done,
// for 8-bit floats and bool. Neither pointer needs an
// alignment.
bool combine_row(Op op, DType type, const std::byte* part, size_t cells, std::byte* row);

}  // namespace tile
