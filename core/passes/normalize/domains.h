// What a normalized contraction's domain must keep: every access is in range on it, and a rewriting
// of the contraction has the same points and conditions.
#pragma once

#include <vector>

#include "core/ir/bound.h"

namespace tile {

// Throws InternalError naming the access where the domain has a point, or for a store a parallel
// point, at which an index is no integer inside the tensor's extent.
void verify_accesses(const Contraction& c, const BoundTensors& tensors);
// Of every normalized contraction.
void verify_accesses(const BoundProgram& program);

// The number of points of the boxes, and of conditions.
struct DomainSize {
  double points = 0;
  size_t conditions = 0;
};
DomainSize domain_size(const Contraction& c);

}  // namespace tile
