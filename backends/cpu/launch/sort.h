// Sorting along one axis (rule 6.4).
#pragma once

#include <cstddef>

#include "backends/host_services.h"
#include "core/ir/bound.h"
#include "core/support/control.h"

namespace tile::cpu {

struct SortCall {
  const Sort& sort;
  const BoundTensor& source;
  const void* from;
  void* to;
  int threads;                 // at most; a single long row may take them all
  std::byte* workspace;        // of sort_workspace() for so many threads or more, aligned to 8
  Control* control = nullptr;  // ends it early; null: nothing does
  Span where = {};
  const ParallelFor* pool = nullptr;  // the host's threads; null: oneTBB's
  void look() const;                  // throws the control's reason where the work is over
};

// Stable, ascending, NaN last; `sort.indices`: the positions (i64) instead of the elements.
void sort_axis(const SortCall& call);
// Bytes that suffice for a sort on so many threads or fewer. Throws Overflow.
size_t sort_workspace(const Sort& sort, const BoundTensor& source, int threads);

}  // namespace tile::cpu
