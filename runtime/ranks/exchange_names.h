// Names of exchanges for errors.
#pragma once

#include <string>
#include <vector>

#include "core/distribute/partition.h"

namespace tile {

// "all-gather of A, mm.tile:2", in the order of the exchanges.
std::vector<std::string> exchange_names(const PartitionedProgram& partitioned,
                                        const Source& source);

}  // namespace tile
