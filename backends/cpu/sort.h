// Sorting along one axis (rule 6.4).
#pragma once

#include "core/ir/bound.h"

namespace tile::cpu {

// Stable, ascending, NaN last; `sort.indices`: the positions (i64) instead of the elements. Rows
// are sorted by up to `threads` threads; a single long row too.
void sort_axis(const Sort& sort, const BoundTensor& source, const void* from, void* to,
               int threads);

}  // namespace tile::cpu
