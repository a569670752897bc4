// Orders in which operands are copied for a register tile.
#include <algorithm>
#include <cmath>

#include "core/schedule/space/piece_space.h"

namespace tile {
namespace {

constexpr size_t kMostPacked = 6;  // loads of one body: copies of more crowd the cache out

}  // namespace

void PieceSpace::pack_operands(const RegisterTile& t, PieceSchedule& s, size_t level) const {
  if (piece_.loads.size() > kMostPacked) return;
  std::vector<Loop> inside(s.outer.begin() + static_cast<std::ptrdiff_t>(level), s.outer.end());
  inside.insert(inside.end(), s.tile.begin(), s.tile.end());
  for (size_t i = 0; i < piece_.loads.size(); ++i) {
    const PieceModel::AccessModel& a = model_.accesses()[i];
    // What is read once, in whole vectors, is read where it lies.
    bool vectors = t.vector.valid() && a.strides[t.vector] == 1;
    if (vectors && a.uses <= 1) continue;
    bool lanes_reduce = t.vector.valid() && !parallel_dim(t.vector);
    Packing p{i, level,
              lanes_reduce ? packed_lanes(t, s, inside, a) : packed_order(t, s, inside, a)};
    if (p.order.size() > 1 && !in_place(p, a)) s.packings.push_back(std::move(p));
  }
}

bool PieceSpace::in_place(const Packing& p, const PieceModel::AccessModel& a) const {
  if (tiles_ && p.order[p.order.size() - 2].step == dot_->group) {
    // Rows of whole groups that memory has are read there, whatever lies between them.
    IteratorId k = p.order.back().iterator;
    bool whole = extent(k) % (dot_->group * target_.tiles.groups()) == 0;
    return whole && p.order[p.order.size() - 2].iterator == k && a.strides[k] == 1;
  }
  int64_t stride = 1;
  for (size_t i = p.order.size(); i-- > 0 && p.level == 0;) {
    const Loop& l = p.order[i];
    if (l.step != 1 || a.strides[l.iterator] != stride) return false;
    stride *= extent(l.iterator);
  }
  return p.level == 0;
}

std::vector<Loop> PieceSpace::packed_lanes(const RegisterTile& t, const PieceSchedule& s,
                                           const std::vector<Loop>& inside,
                                           const PieceModel::AccessModel& a) const {
  std::vector<Loop> order, rows;
  if (std::abs(a.strides[t.vector]) <= 1) return order;
  for (const Loop& l : inside) {
    if (a.strides[l.iterator] == 0 || !parallel_dim(l.iterator)) continue;
    bool tile = l.step > 1 && l.step == tile_step(t, l.iterator);
    if (l.step == 1) rows.push_back({l.iterator, 1, Binding::serial});
    if (tile) order.push_back({l.iterator, l.step, Binding::serial});
  }
  for (const Loop& l : s.reduce) {
    if (a.strides[l.iterator] == 0) continue;
    bool wanted = l.step == (l.iterator == t.vector ? model_.lanes() : 1);
    if (wanted) order.push_back({l.iterator, l.step, Binding::serial});
  }
  order.insert(order.end(), rows.begin(), rows.end());
  order.push_back({t.vector, 1, Binding::serial});
  return order;
}

int64_t PieceSpace::panel_of(const RegisterTile& t, IteratorId u) const {
  return tiles_ && u == t.vector ? target_.tiles.columns() : tile_step(t, u);
}

std::vector<Loop> PieceSpace::packed_order(const RegisterTile& t, const PieceSchedule& s,
                                           const std::vector<Loop>& inside,
                                           const PieceModel::AccessModel& a) const {
  auto uses = [&](IteratorId u) { return a.strides[u] != 0; };
  auto looped = [&](IteratorId u, int64_t step) {
    return std::any_of(inside.begin(), inside.end(), [&](const Loop& l) {
      return l.iterator == u && (step == 0 || l.step == step);
    });
  };
  std::vector<Loop> tiles, rows, last;
  for (size_t u = 0; u < piece_.parallel_dims; ++u) {
    IteratorId iterator(u);
    if (!uses(iterator) || !looped(iterator, 0)) continue;
    // A parallel dimension that memory has contiguous stays so within its tile: copied a run at a
    // time.
    int64_t step = panel_of(t, iterator);
    bool run =
        iterator == t.vector || iterator == t.joined || (!tiles_ && a.strides[u] == 1 && step > 1);
    if (run && step > 1 && looped(iterator, step)) {
      tiles.push_back({iterator, step, Binding::serial});
    }
    (run ? last : rows).push_back({iterator, 1, Binding::serial});
  }
  if (t.joined.valid()) {  // the lanes' order
    std::stable_sort(last.begin(), last.end(), [&](const Loop& x, const Loop& y) {
      auto lane = [&](const Loop& l) {
        return l.iterator == t.vector ? 2 : l.iterator == t.joined;
      };
      return lane(x) < lane(y);
    });
  }
  std::vector<Loop> order = tiles, neighbours;
  order.insert(order.end(), rows.begin(), rows.end());
  IteratorId dot = dot_iterator();
  for (const Loop& l : s.reduce) {
    if (!uses(l.iterator)) continue;
    if (l.iterator == dot && l.binding == Binding::dot) neighbours = {{dot, 1, Binding::serial}};
    bool wanted = l.iterator == dot ? l.step == dot_->group : l.step == 1;
    if (wanted) order.push_back({l.iterator, l.step, Binding::serial});
  }
  order.insert(order.end(), last.begin(), last.end());
  order.insert(order.end(), neighbours.begin(), neighbours.end());
  return order;
}

}  // namespace tile
