// A divided program told to a reader: what lies where, what is computed where, and what moves.
#pragma once

#include <string>

#include "core/distribute/partition.h"

namespace tile {

std::string explain(const BoundProgram& program, const PartitionedProgram& partitioned);

}  // namespace tile
