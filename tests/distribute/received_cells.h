// What ranks need, found by visiting every point of what they compute: nothing of the partitioner's
// algebra is used.
#pragma once

#include <cstdint>
#include <string>

#include "core/distribute/partition.h"

namespace tile::test {

// Each rank gets exactly the cells that its accesses reach, as boxes: empty if so, else where not.
std::string first_unlike_brute_force(const PartitionedProgram& p);
// Bytes that a rank has not itself and some access reaches, over all exchanges; and what the
// partitioner tells.
int64_t bytes_by_brute_force(const PartitionedProgram& p);
int64_t bytes_told(const PartitionedProgram& p);

}  // namespace tile::test
