// The rules between the programs of all ranks of a mesh.
#include <map>

#include "core/ir/ranks/rank_program.h"

namespace tile {
namespace {

// The boxes that go to, or come from, each rank, in order.
using BoxesByRank = std::map<int64_t, std::vector<const Box*>>;
BoxesByRank by_rank(const std::vector<Exchange::Part>& parts, size_t ranks) {
  BoxesByRank boxes;
  for (const Exchange::Part& part : parts) {
    internal_check(part.rank < static_cast<int64_t>(ranks), "ranks: no such rank");
    boxes[part.rank].push_back(&part.box);
  }
  return boxes;
}

void verify_pair(const std::vector<const Box*>& sent, const std::vector<const Box*>& received) {
  internal_check(sent.size() == received.size(), "ranks: parts sent and received differ");
  for (size_t i = 0; i < sent.size(); ++i) {
    internal_check(sent[i]->shape() == received[i]->shape(),
                   "ranks: a part is received with another shape");
  }
}

void verify_exchange(const std::vector<RankProgram>& ranks, size_t e) {
  std::vector<BoxesByRank> received;
  for (const RankProgram& rank : ranks) {
    const Exchange& exchange = rank.exchanges[e].what;
    internal_check(exchange.reduction == ranks[0].exchanges[e].what.reduction,
                   "ranks: another reduction");
    internal_check(exchange.piece == ranks[0].exchanges[e].what.piece, "ranks: another piece");
    received.push_back(by_rank(exchange.receives, ranks.size()));
  }
  for (size_t s = 0; s < ranks.size(); ++s) {
    for (const auto& [r, boxes] : by_rank(ranks[s].exchanges[e].what.sends, ranks.size())) {
      BoxesByRank& to = received[static_cast<size_t>(r)];
      verify_pair(boxes, to[static_cast<int64_t>(s)]);
      to.erase(static_cast<int64_t>(s));
    }
  }
  for (const BoxesByRank& left : received) {
    internal_check(left.empty(), "ranks: a part is received that nobody sends");
  }
}

}  // namespace

void verify(const std::vector<RankProgram>& ranks) {
  for (const RankProgram& rank : ranks) {
    verify(rank);
    internal_check(rank.exchanges.size() == ranks[0].exchanges.size(),
                   "ranks: another number of exchanges");
  }
  for (size_t e = 0; !ranks.empty() && e < ranks[0].exchanges.size(); ++e) {
    verify_exchange(ranks, e);
  }
}

}  // namespace tile
