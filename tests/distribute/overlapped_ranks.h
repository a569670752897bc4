// Programs of ranks that compute while parts travel, and what they send.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/distribute/overlap/overlap.h"
#include "core/distribute/overlap/pieces/in_pieces.h"

namespace tile::test {

// Exchanges in pieces, and each rank's own overlap then.
struct OverlappedRanks {
  PartitionedProgram parts;
  std::vector<PiecedExchange> pieces;
  std::vector<std::vector<Travel>> travels;  // of each rank
};
OverlappedRanks in_pieces_and_overlapped(const PartitionedProgram& parts,
                                         const OverlapOptions& options);

// Bytes by sender and receiver, of other ranks.
std::map<std::pair<size_t, size_t>, int64_t> sent_bytes(const PartitionedProgram& parts);

}  // namespace tile::test
