#include "core/distribute/exchange_kind.h"

#include <algorithm>
#include <numeric>

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

void Traffic::add(size_t sender, size_t receiver, int64_t bytes, const Link& link) {
  cost_.bytes = checked_add(cost_.bytes, bytes);
  size_t pair = sender * ends_.size() / 2 + receiver;
  bool first = !seen_[pair];
  seen_[pair] = true;
  for (size_t end : {2 * sender, 2 * receiver + 1}) {
    End& one = ends_[end];
    one.bytes += bytes;
    one.messages += first ? 1 : 0;
    one.ns += (first ? link.latency_ns : 0) + static_cast<double>(bytes) / link.bytes_per_ns;
    cost_.busiest = std::max(cost_.busiest, one.bytes);
    cost_.most_messages = std::max(cost_.most_messages, one.messages);
    cost_.ns = std::max(cost_.ns, one.ns);
  }
  cost_.messages += first ? 1 : 0;
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

Link Links::over(const std::vector<size_t>& list) const {
  if (list.empty()) return any;
  Link slowest = of(list[0]);
  for (size_t axis : list) {
    slowest.latency_ns = std::max(slowest.latency_ns, of(axis).latency_ns);
    slowest.bytes_per_ns = std::min(slowest.bytes_per_ns, of(axis).bytes_per_ns);
  }
  return slowest;
}

Link Links::between(const Mesh& mesh, size_t a, size_t b) const {
  if (axes.empty()) return any;
  std::vector<int64_t> at = mesh.coordinates(a), there = mesh.coordinates(b);
  std::vector<size_t> differ;
  for (size_t axis = 0; axis < at.size(); ++axis) {
    if (at[axis] != there[axis]) differ.push_back(axis);
  }
  return over(differ);
}

ExchangeCost exchange_cost(const Mesh& mesh, const std::vector<Box>& boxes,
                           const std::vector<std::vector<NeedPart>>& needs,
                           const std::vector<Transfer>& transfers, bool sums, int64_t element_bytes,
                           const Links& links) {
  Traffic traffic(boxes.size());
  for (const Transfer& t : transfers) {
    if (t.sender == t.receiver) continue;
    traffic.add(t.sender, t.receiver, checked_mul(t.cells.count(), element_bytes),
                links.between(mesh, t.sender, t.receiver));
  }
  ExchangeCost cost = traffic.cost();
  if (cost.messages != 0) cost.kind = Classifier(boxes, needs, transfers).kind(sums);
  return cost;
}

}  // namespace tile
