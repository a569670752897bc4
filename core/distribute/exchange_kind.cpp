#include "core/distribute/exchange_kind.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "core/support/checked.h"

namespace tile {

std::string_view to_string(ExchangeKind kind) {
  switch (kind) {
    case ExchangeKind::copy:
      return "copy";
    case ExchangeKind::halo:
      return "halo";
    case ExchangeKind::all_gather:
      return "all-gather";
    case ExchangeKind::all_to_all:
      return "all-to-all";
    case ExchangeKind::redistribution:
      return "redistribution";
    case ExchangeKind::reduce_scatter:
      return "reduce-scatter";
    case ExchangeKind::all_reduce:
      return "all-reduce";
    case ExchangeKind::reduction:
      return "reduction";
  }
  return "";
}

namespace {

// Ranks that some transfer connects.
class Groups {
 public:
  Groups(size_t ranks, const std::vector<Transfer>& transfers) : parent_(ranks) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
    for (const Transfer& t : transfers) parent_[root(t.sender)] = root(t.receiver);
  }
  size_t root(size_t rank) {
    while (parent_[rank] != rank) rank = parent_[rank] = parent_[parent_[rank]];
    return rank;
  }

 private:
  std::vector<size_t> parent_;
};

int64_t cells_of(const std::vector<Box>& boxes) {
  int64_t cells = 0;
  for (const Box& box : boxes) cells += box.count();
  return cells;
}

class Classifier {
 public:
  Classifier(const std::vector<Box>& boxes, const std::vector<std::vector<NeedPart>>& needs,
             const std::vector<Transfer>& transfers)
      : boxes_(boxes),
        groups_(boxes.size(), transfers),
        held_(boxes.size()),
        wanted_(boxes.size()) {
    for (size_t r = 0; r < boxes.size(); ++r) {
      add_disjoint(held_[groups_.root(r)], boxes[r]);
      for (const NeedPart& part : needs[r]) add_disjoint(wanted_[r], part.cells);
    }
  }

  ExchangeKind kind(bool sums) {
    if (all_want_everything()) return sums ? ExchangeKind::all_reduce : ExchangeKind::all_gather;
    if (sums) return share_nothing() ? ExchangeKind::reduce_scatter : ExchangeKind::reduction;
    bool apart = share_nothing();
    if (keep_their_own() && !(apart && move_most())) return ExchangeKind::halo;
    return apart ? ExchangeKind::all_to_all : ExchangeKind::redistribution;
  }

 private:
  bool all_want_everything() {
    for (size_t r = 0; r < boxes_.size(); ++r) {
      if (cells_of(wanted_[r]) != cells_of(held_[groups_.root(r)])) return false;
    }
    return true;
  }

  // No cell goes to two ranks of a group.
  bool share_nothing() {
    std::vector<std::vector<Box>> seen(boxes_.size());
    std::vector<int64_t> cells(boxes_.size(), 0);
    for (size_t r = 0; r < boxes_.size(); ++r) {
      size_t group = groups_.root(r);
      cells[group] += cells_of(wanted_[r]);
      for (const Box& box : wanted_[r]) add_disjoint(seen[group], box);
      if (cells_of(seen[group]) != cells[group]) return false;
    }
    return true;
  }

  // Every rank that needs anything needs some of what it has.
  bool keep_their_own() const {
    for (size_t r = 0; r < boxes_.size(); ++r) {
      if (wanted_[r].empty()) continue;
      bool own = std::any_of(wanted_[r].begin(), wanted_[r].end(),
                             [&](const Box& box) { return !intersection(box, boxes_[r]).empty(); });
      if (!own) return false;
    }
    return true;
  }

  // Half or more of all cells that are wanted are elsewhere.
  bool move_most() const {
    int64_t wanted = 0, own = 0;
    for (size_t r = 0; r < boxes_.size(); ++r) {
      wanted += cells_of(wanted_[r]);
      for (const Box& box : wanted_[r]) own += intersection(box, boxes_[r]).count();
    }
    return 2 * own <= wanted;
  }

  const std::vector<Box>& boxes_;
  Groups groups_;
  std::vector<std::vector<Box>> held_;    // of each group, at its root
  std::vector<std::vector<Box>> wanted_;  // of each rank
};

}  // namespace

ExchangeCost exchange_cost(const std::vector<Box>& boxes,
                           const std::vector<std::vector<NeedPart>>& needs,
                           const std::vector<Transfer>& transfers, bool sums, int64_t element_bytes,
                           const Link& link) {
  struct Traffic {
    int64_t bytes = 0;
    std::set<size_t> peers;
  };
  std::vector<Traffic> sent(boxes.size()), received(boxes.size());
  ExchangeCost cost;
  for (const Transfer& t : transfers) {
    if (t.sender == t.receiver) continue;
    int64_t bytes = checked_mul(t.cells.count(), element_bytes);
    cost.bytes = checked_add(cost.bytes, bytes);
    sent[t.sender].bytes += bytes;
    sent[t.sender].peers.insert(t.receiver);
    received[t.receiver].bytes += bytes;
    received[t.receiver].peers.insert(t.sender);
  }
  for (const std::vector<Traffic>* all : {&sent, &received}) {
    for (const Traffic& one : *all) {
      auto peers = static_cast<int64_t>(one.peers.size());
      if (all == &sent) cost.messages += peers;
      cost.busiest = std::max(cost.busiest, one.bytes);
      cost.most_messages = std::max(cost.most_messages, peers);
      cost.ns = std::max(cost.ns, static_cast<double>(peers) * link.latency_ns +
                                      static_cast<double>(one.bytes) / link.bytes_per_ns);
    }
  }
  if (cost.messages != 0) cost.kind = Classifier(boxes, needs, transfers).kind(sums);
  return cost;
}

}  // namespace tile
