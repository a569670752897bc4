#include "tests/distribute/overlapped_ranks.h"

namespace tile::test {

OverlappedRanks in_pieces_and_overlapped(const PartitionedProgram& parts,
                                         const OverlapOptions& options) {
  PiecewiseProgram pieces = in_pieces(parts, options);
  OverlappedRanks result{pieces.parts, std::move(pieces.pieces), {}};
  for (size_t r = 0; r < parts.ranks.size(); ++r) {
    OverlappedProgram own = overlapped(pieces.parts, r, options);
    result.parts.ranks[r] = std::move(own.program);
    result.travels.push_back(std::move(own.travels));
  }
  verify(result.parts.ranks);
  return result;
}

std::map<std::pair<size_t, size_t>, int64_t> sent_bytes(const PartitionedProgram& parts) {
  std::map<std::pair<size_t, size_t>, int64_t> bytes;
  for (size_t r = 0; r < parts.ranks.size(); ++r) {
    for (const PlacedExchange& e : parts.ranks[r].exchanges) {
      DType type = parts.ranks[r].program.tensors[e.what.source].type;
      for (const Exchange::Part& part : e.what.sends) {
        auto to = static_cast<size_t>(part.rank);
        if (to == r) continue;
        bytes[{r, to}] += part.box.count() * static_cast<int64_t>(byte_size(type));
      }
    }
  }
  return bytes;
}

}  // namespace tile::test
