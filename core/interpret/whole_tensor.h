// The reference for the statements that are no contractions (rule 6.4).
#pragma once

#include "core/ir/bound.h"
#include "core/ir/scalar.h"

namespace tile {

// Ascending and stable along the axis, NaN last; the values or (argsort) their positions. The
// source may be a view's: its elements are read in row-major order under the result's shape.
void run_sort(const Sort& sort, const HostTensor& source, HostTensor& result);

// Sums the updates in row-major order of the indices, in the accumulation type (rule 4.8).
void run_scatter(const Scatter& scatter, const HostTensor& updates, const HostTensor& indices,
                 HostTensor& result);

}  // namespace tile
