#include "core/distribute/overlap/pieces/exchange_pieces.h"

#include <algorithm>
#include <map>

namespace tile {
namespace {

// More exchanges of one tensor are more messages than a rank's work is worth.
constexpr size_t kMostPieces = 16;

using BoxOf = std::map<size_t, Box>;  // by the other rank

// Nullopt: several parts for one rank.
std::optional<BoxOf> by_rank(const std::vector<Exchange::Part>& parts) {
  BoxOf boxes;
  for (const Exchange::Part& part : parts) {
    if (!boxes.emplace(static_cast<size_t>(part.rank), part.box).second) return std::nullopt;
  }
  return boxes;
}

// The others among them, those behind the rank first.
std::vector<size_t> others_of(const BoxOf& boxes, size_t rank) {
  std::vector<size_t> others;
  for (const auto& [other, box] : boxes) {
    if (other != rank) others.push_back(other);
  }
  std::ranges::rotate(others, std::ranges::upper_bound(others, rank));
  return others;
}

Box chunk_of(Box box, PieceCut cut, size_t chunk) {
  auto chunks = static_cast<int64_t>(cut.chunks), j = static_cast<int64_t>(chunk);
  if (cut.dim >= box.dims()) return box;
  int64_t lo = box.lo[cut.dim], extent = box.hi[cut.dim] - lo;
  box.lo[cut.dim] = lo + extent * j / chunks;
  box.hi[cut.dim] = lo + extent * (j + 1) / chunks;
  return box;
}

class Cutting {
 public:
  Cutting(const std::vector<RankProgram>& ranks, size_t exchange, PieceOrder order, PieceCut cut)
      : ranks_(ranks), exchange_(exchange), order_(order), cut_(cut) {}

  std::optional<ExchangePieces> run() {
    for (const RankProgram& rank : ranks_) {
      const Exchange& what = rank.exchanges[exchange_].what;
      std::optional<BoxOf> sent = by_rank(what.sends), received = by_rank(what.receives);
      if (!sent || !received) return std::nullopt;
      sent_.push_back(std::move(*sent));
      received_.push_back(std::move(*received));
    }
    const std::vector<BoxOf>& first = order_ == PieceOrder::of_senders ? sent_ : received_;
    size_t stages = 0;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      stages = std::max(stages, others_of(first[r], r).size());
    }
    result_.count = stages * cut_.chunks;
    if (stages == 0 || result_.count > kMostPieces) return std::nullopt;
    result_.of_rank.assign(ranks_.size(), std::vector<ExchangePieces::Ends>(result_.count));
    for (size_t r = 0; r < ranks_.size(); ++r) {
      note_own(r);
      std::vector<size_t> others = others_of(first[r], r);
      for (size_t stage = 0; stage < others.size(); ++stage) {
        bool sends = order_ == PieceOrder::of_senders;
        size_t from = sends ? r : others[stage], to = sends ? others[stage] : r;
        if (!add(stage, from, to)) return std::nullopt;
      }
    }
    return std::move(result_);
  }

 private:
  void note_own(size_t rank) {
    std::optional<ExchangePieces::Own>& own = result_.own.emplace_back();
    auto sent = sent_[rank].find(rank);
    if (sent != sent_[rank].end()) own = {sent->second, received_[rank].at(rank)};
  }

  bool add(size_t stage, size_t from, size_t to) {
    const Box &sent = sent_[from].at(to), &received = received_[to].at(from);
    for (size_t chunk = 0; chunk < cut_.chunks; ++chunk) {
      size_t piece = stage * cut_.chunks + chunk;
      Box out = chunk_of(sent, cut_, chunk), in = chunk_of(received, cut_, chunk);
      bool one = cut_.dim < out.dims() || chunk == 0;
      if (out.empty() || !one) continue;
      ExchangePieces::Ends &sender = result_.of_rank[from][piece],
                           &receiver = result_.of_rank[to][piece];
      if (sender.sends || receiver.receives) return false;
      sender.sends = {static_cast<int64_t>(to), std::move(out)};
      receiver.receives = {static_cast<int64_t>(from), std::move(in)};
    }
    return true;
  }

  const std::vector<RankProgram>& ranks_;
  size_t exchange_;
  PieceOrder order_;
  PieceCut cut_;
  std::vector<BoxOf> sent_, received_;  // of each rank
  ExchangePieces result_;
};

}  // namespace

std::optional<ExchangePieces> pieces_of(const std::vector<RankProgram>& ranks, size_t exchange,
                                        PieceOrder order, PieceCut cut) {
  return Cutting(ranks, exchange, order, cut).run();
}

}  // namespace tile
