// Reads of tensors that others stand in for. Private to this room.
#pragma once

#include <map>

#include "core/ir/bound.h"

namespace tile {

using Renaming = std::map<TensorId, TensorId>;

// What the statement reads is read from what stands in for it.
void rename_reads(BoundStatement& statement, const Renaming& to);
// Views are of what stands in for their tensors.
void rename_views(BoundProgram& program, const Renaming& to);

}  // namespace tile
