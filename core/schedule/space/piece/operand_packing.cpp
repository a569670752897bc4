#include "core/schedule/space/piece/operand_packing.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace tile {
namespace {

constexpr size_t kMostPacked = 6;  // loads of one body: copies of more crowd the cache out

}  // namespace

void OperandPacking::pack(const RegisterTile& t, PieceSchedule& s, size_t level) const {
  if (c_.piece.loads.size() > kMostPacked) return;
  std::vector<Loop> inside(s.outer.begin() + static_cast<std::ptrdiff_t>(level), s.outer.end());
  inside.insert(inside.end(), s.tile.begin(), s.tile.end());
  for (size_t i = 0; i < c_.piece.loads.size(); ++i) {
    const AccessFacts& a = c_.facts.accesses[i];
    // What is read once, in whole vectors, is read where it lies.
    bool vectors = t.vector.valid() && a.strides[t.vector] == 1;
    if (vectors && a.uses <= 1) continue;
    bool lanes_reduce = t.vector.valid() && !c_.is_parallel_dim(t.vector);
    Packing p{i, level,
              lanes_reduce ? packed_lanes(t, s, inside, a) : packed_order(t, s, inside, a)};
    if (p.order.size() > 1 && !in_place(p, a)) s.packings.push_back(std::move(p));
  }
}

bool OperandPacking::in_place(const Packing& p, const AccessFacts& a) const {
  if (c_.amx && p.order[p.order.size() - 2].step == c_.dot->group) {
    // Rows of whole groups that memory has are read there, whatever lies between them.
    IteratorId k = p.order.back().iterator;
    bool whole = c_.extent(k) % (c_.dot->group * c_.target.tiles.groups()) == 0;
    return whole && p.order[p.order.size() - 2].iterator == k && a.strides[k] == 1;
  }
  int64_t stride = 1;
  for (size_t i = p.order.size(); i-- > 0 && p.level == 0;) {
    const Loop& l = p.order[i];
    if (l.step != 1 || a.strides[l.iterator] != stride) return false;
    stride *= c_.extent(l.iterator);
  }
  return p.level == 0;
}

std::vector<Loop> OperandPacking::packed_lanes(const RegisterTile& t, const PieceSchedule& s,
                                               const std::vector<Loop>& inside,
                                               const AccessFacts& a) const {
  std::vector<Loop> order, rows;
  if (std::abs(a.strides[t.vector]) <= 1) return order;
  for (const Loop& l : inside) {
    if (a.strides[l.iterator] == 0 || !c_.is_parallel_dim(l.iterator)) continue;
    bool tile = l.step > 1 && l.step == c_.tile_step(t, l.iterator);
    if (l.step == 1) rows.push_back({l.iterator, 1, Binding::serial});
    if (tile) order.push_back({l.iterator, l.step, Binding::serial});
  }
  for (const Loop& l : s.reduce) {
    if (a.strides[l.iterator] == 0) continue;
    bool wanted = l.step == (l.iterator == t.vector ? c_.facts.lanes : 1);
    if (wanted) order.push_back({l.iterator, l.step, Binding::serial});
  }
  order.insert(order.end(), rows.begin(), rows.end());
  order.push_back({t.vector, 1, Binding::serial});
  return order;
}

int64_t OperandPacking::panel_of(const RegisterTile& t, IteratorId u) const {
  return c_.amx && u == t.vector ? c_.target.tiles.columns() : c_.tile_step(t, u);
}

// Parallel dimensions in the copy. One that memory has contiguous stays so within its tile: copied
// a run at a time.
OperandPacking::Panels OperandPacking::panels(const RegisterTile& t,
                                              const std::vector<Loop>& inside,
                                              const AccessFacts& a) const {
  auto looped = [&](IteratorId u, int64_t step) {
    return std::any_of(inside.begin(), inside.end(), [&](const Loop& l) {
      return l.iterator == u && (step == 0 || l.step == step);
    });
  };
  Panels p;
  for (size_t u = 0; u < c_.piece.parallel_dims; ++u) {
    IteratorId iterator(u);
    if (a.strides[u] == 0 || !looped(iterator, 0)) continue;
    int64_t step = panel_of(t, iterator);
    bool run =
        iterator == t.vector || iterator == t.joined || (!c_.amx && a.strides[u] == 1 && step > 1);
    if (run && step > 1 && looped(iterator, step)) {
      p.tiles.push_back({iterator, step, Binding::serial});
    }
    (run ? p.last : p.rows).push_back({iterator, 1, Binding::serial});
  }
  if (!t.joined.valid()) return p;
  auto lane = [&](const Loop& l) { return l.iterator == t.vector ? 2 : l.iterator == t.joined; };
  std::stable_sort(p.last.begin(), p.last.end(),
                   [&](const Loop& x, const Loop& y) { return lane(x) < lane(y); });
  return p;
}

std::vector<Loop> OperandPacking::packed_order(const RegisterTile& t, const PieceSchedule& s,
                                               const std::vector<Loop>& inside,
                                               const AccessFacts& a) const {
  Panels p = panels(t, inside, a);
  std::vector<Loop> order = std::move(p.tiles), neighbours;
  order.insert(order.end(), p.rows.begin(), p.rows.end());
  IteratorId dot = c_.dot_iterator;
  for (const Loop& l : s.reduce) {
    if (a.strides[l.iterator] == 0) continue;
    if (l.iterator == dot && l.binding == Binding::dot) neighbours = {{dot, 1, Binding::serial}};
    bool wanted = l.iterator == dot ? l.step == c_.dot->group : l.step == 1;
    if (wanted) order.push_back({l.iterator, l.step, Binding::serial});
  }
  order.insert(order.end(), p.last.begin(), p.last.end());
  order.insert(order.end(), neighbours.begin(), neighbours.end());
  return order;
}

bool OperandPacking::along(const RegisterTile& t, const Packing& p, const PieceSchedule& s) {
  size_t loops = packed_loops(p, s);
  return loops > 0 && p.order[loops - 1].iterator == t.vector;
}

}  // namespace tile
