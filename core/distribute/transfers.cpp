#include "core/distribute/transfers.h"

#include <algorithm>

#include "core/distribute/mesh/layout.h"
#include "core/support/control.h"

namespace tile {
namespace {

class TransferPlanner {
 public:
  TransferPlanner(const Mesh& mesh, const std::vector<Box>& boxes,
                  const std::vector<size_t>& partial)
      : mesh_(mesh), boxes_(boxes), groups_(parts_of(mesh, partial)) {
    for (size_t r = 0; r < boxes.size(); ++r) {
      at_.push_back(mesh.coordinates(r));
      if (!boxes[r].empty()) groups_[part_of(mesh, partial, r)].push_back(r);
    }
  }

  void plan(size_t receiver, const std::vector<NeedPart>& needs,
            std::vector<Transfer>& into) const {
    for (std::vector<size_t> group : groups_) {
      std::stable_sort(group.begin(), group.end(), [&](size_t a, size_t b) {
        return distance(a, receiver) < distance(b, receiver);
      });
      for (const NeedPart& need : needs) fetch(receiver, group, need, into);
    }
  }

 private:
  // Axes that differ; then how far to go around, so that not all take from the first rank.
  std::pair<size_t, size_t> distance(size_t sender, size_t receiver) const {
    size_t axes = 0;
    for (size_t a = 0; a < mesh_.axes.size(); ++a) axes += at_[sender][a] != at_[receiver][a];
    return {axes, (sender + boxes_.size() - receiver) % boxes_.size()};
  }

  void fetch(size_t receiver, const std::vector<size_t>& senders, const NeedPart& need,
             std::vector<Transfer>& into) const {
    std::vector<Box> missing;
    if (!need.cells.empty()) missing.push_back(need.cells);
    for (size_t sender : senders) {
      if (missing.empty()) return;
      checkpoint();
      std::vector<Box> left;
      for (const Box& box : missing) {
        if (!overlap(box, boxes_[sender])) {
          left.push_back(box);
          continue;
        }
        Box found = intersection(box, boxes_[sender]);
        Transfer transfer{sender, receiver, found, need.at};
        for (size_t d = 0; d < found.dims(); ++d) {
          transfer.at[d] += found.lo[d] - need.cells.lo[d];
        }
        into.push_back(std::move(transfer));
        for (Box& rest : difference(box, boxes_[sender])) left.push_back(std::move(rest));
      }
      missing = std::move(left);
    }
    internal_check(missing.empty(), "transfers: no rank has a cell");
  }

  const Mesh& mesh_;
  const std::vector<Box>& boxes_;
  std::vector<std::vector<int64_t>> at_;     // coordinates of each rank
  std::vector<std::vector<size_t>> groups_;  // ranks with the same part of sums
};

}  // namespace

std::vector<Transfer> transfers_of(const Mesh& mesh, const std::vector<Box>& boxes,
                                   const std::vector<size_t>& partial,
                                   const std::vector<std::vector<NeedPart>>& needs) {
  TransferPlanner planner(mesh, boxes, partial);
  std::vector<Transfer> transfers;
  for (size_t r = 0; r < needs.size(); ++r) planner.plan(r, needs[r], transfers);
  return transfers;
}

}  // namespace tile
