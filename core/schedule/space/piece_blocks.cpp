// Blocks for the caches, with and without packed operands, and transposed copies through them.
#include <algorithm>
#include <cmath>

#include "core/schedule/space/piece_space.h"

namespace tile {
namespace {

constexpr int64_t kBlock = 64;  // elements of a transposed block's rows and columns
constexpr double kReuses = 4;   // of an element that are worth a copy of its operand

}  // namespace

void PieceSpace::blocked(const RegisterTile& t) {
  if (!t.vector.valid() || !parallel_dim(t.vector) || t.unrolled.empty()) return;
  double whole = 0;
  for (const PieceModel::AccessModel& a : model_.accesses()) {
    whole += model_.footprint(a, piece_.box);
  }
  if (whole < static_cast<double>(target_.l2_bytes) / 2) return;
  IteratorId m = t.unrolled[0].first, n = t.vector;
  for (int64_t rows : block_sizes(m, tile_step(t, m))) {
    for (int64_t columns : block_sizes(n, tile_step(t, n))) {
      for (int64_t depth : depths({256})) blocked_by(t, m, rows, n, columns, depth);
    }
  }
  for (int64_t rows : block_sizes(m, tile_step(t, m), target_.threads)) {
    for (int64_t depth : depths({512, 1024})) shared_panels(t, m, rows, depth);
  }
  if (int64_t rows = resident_rows(t, m); rows > tile_step(t, m)) shared_panels(t, m, rows, 0);
}

// Rows that stay in the first cache beside the operand of one tile along the vector.
int64_t PieceSpace::resident_rows(const RegisterTile& t, IteratorId m) const {
  IterationBox range = piece_.box;
  for (size_t u = 0; u < piece_.parallel_dims; ++u) {
    range[u] = std::min(range[u], tile_step(t, IteratorId(u)));
  }
  auto fits = [&](int64_t rows) {
    range[m] = rows;
    double bytes = 0;
    for (const PieceModel::AccessModel& a : model_.accesses()) {
      if (!a.store) bytes += model_.footprint(a, range);
    }
    return bytes <= kUsableCache * static_cast<double>(target_.l1_bytes);
  };
  int64_t step = tile_step(t, m), rows = 0;
  while (rows < extent(m) && fits(rows + step)) rows += step;
  return std::min(rows, ceil_div(ceil_div(extent(m), target_.threads), step) * step);
}

std::vector<int64_t> PieceSpace::block_sizes(IteratorId u, int64_t step, int64_t share) const {
  std::vector<int64_t> sizes;
  for (int64_t target : {int64_t{240}, int64_t{448}}) {
    int64_t parts = std::max<int64_t>(1, (extent(u) + target / 2) / target);
    parts = ceil_div(parts, share) * share;
    int64_t size = ceil_div(ceil_div(extent(u), parts), step) * step;
    if (size > step && std::find(sizes.begin(), sizes.end(), size) == sizes.end()) {
      sizes.push_back(size);
    }
  }
  return sizes;
}

std::vector<int64_t> PieceSpace::depths(std::initializer_list<int64_t> targets) const {
  int64_t all = extent(longest_reduction());
  std::vector<int64_t> sizes{0};
  for (int64_t target : targets) {
    if (all < 2 * target) continue;
    int64_t parts = (all + target / 2) / target;
    sizes.push_back(ceil_div(ceil_div(all, parts), 8) * 8);
  }
  return sizes;
}

IteratorId PieceSpace::longest_reduction() const {
  IteratorId longest(piece_.parallel_dims);
  for (size_t u = piece_.parallel_dims; u < piece_.box.size(); ++u) {
    if (piece_.box[u] > extent(longest)) longest = IteratorId(u);
  }
  return longest;
}

void PieceSpace::shared_panels(const RegisterTile& t, IteratorId m, int64_t rows, int64_t depth) {
  IteratorId k = longest_reduction();
  if (rows >= extent(m)) return;
  std::vector<Loop> outer, inside;
  for (const Loop& l : natural_order(t)) {
    bool block = l.iterator == m || l.iterator == t.vector;
    if (!block) (extent(l.iterator) == 1 ? inside : outer).push_back(l);
  }
  outer.push_back({m, rows, Binding::serial});
  if (depth > 0) outer.push_back({k, depth, Binding::serial});
  size_t level = outer.size();
  outer.insert(outer.end(), inside.begin(), inside.end());
  outer.push_back({t.vector, tile_step(t, t.vector), Binding::serial});
  outer.push_back({m, tile_step(t, m), Binding::serial});
  PieceSchedule s = with(t, outer), blocks = s;
  auto uses = [&](const Packing& p, IteratorId u) {
    const PieceModel::AccessModel& a = model_.accesses()[p.load];
    return a.strides[u] != 0;
  };
  pack_operands(t, s, 0);
  std::erase_if(s.packings,
                [&](const Packing& p) { return uses(p, m) || !uses(p, k) || !along(t, p, s); });
  if (s.packings.empty()) return;
  consider(t, with(t, outer));
  for (Packing& p : s.packings) {
    if (depth > 0) p.order.insert(p.order.begin(), {k, depth, Binding::serial});
  }
  consider(t, s);
  pack_operands(t, blocks, level);
  for (Packing& p : blocks.packings) {
    if (uses(p, m)) s.packings.push_back(std::move(p));
  }
  consider(t, s);
}

void PieceSpace::blocked_by(const RegisterTile& t, IteratorId m, int64_t rows, IteratorId n,
                            int64_t columns, int64_t depth) {
  std::vector<Loop> outer, inside;
  for (const Loop& l : natural_order(t)) {
    bool block = l.iterator == m || l.iterator == n;
    bool trivial = extent(l.iterator) == 1;
    if (!block && !trivial) outer.push_back(l);
    if (trivial && !block) inside.push_back(l);
  }
  outer.push_back({m, rows, Binding::serial});
  outer.push_back({n, columns, Binding::serial});
  if (depth > 0) outer.push_back({longest_reduction(), depth, Binding::serial});
  size_t level = outer.size();
  outer.insert(outer.end(), inside.begin(), inside.end());
  outer.push_back({n, tile_step(t, n), Binding::serial});
  outer.push_back({m, tile_step(t, m), Binding::serial});
  PieceSchedule s = with(t, outer);
  consider(t, s);
  pack_operands(t, s, level);
  consider(t, s);
}

void PieceSpace::panelled(const RegisterTile& t, const PieceSchedule& s) {
  if (!t.vector.valid()) return;
  PieceSchedule whole = s;
  pack_operands(t, whole, 0);
  std::erase_if(whole.packings, [&](const Packing& p) { return !reused(p.load); });
  if (!whole.packings.empty()) consider(whole);
  if (!parallel_dim(t.vector)) return;
  std::erase_if(whole.packings, [&](const Packing& p) { return !along(t, p, whole); });
  if (!whole.packings.empty()) consider(std::move(whole));
  for (size_t level : {0, 1}) {
    if (level == 1 && s.outer[0].iterator != t.vector) continue;
    PieceSchedule packed = s;
    pack_operands(t, packed, level);
    std::erase_if(packed.packings, [&](const Packing& p) {
      return std::any_of(p.order.begin(), p.order.end(),
                         [&](const Loop& l) {
                           return parallel_dim(l.iterator) && l.iterator != t.vector;
                         }) ||
             !along(t, p, packed);
    });
    if (packed.packings.empty()) continue;
    consider(std::move(packed));
  }
}

bool PieceSpace::along(const RegisterTile& t, const Packing& p, const PieceSchedule& s) {
  size_t loops = packed_loops(p, s);
  return loops > 0 && p.order[loops - 1].iterator == t.vector;
}

bool PieceSpace::reused(size_t load) const {
  const PieceModel::AccessModel& a = model_.accesses()[load];
  return a.kept || a.uses >= kReuses;
}

void PieceSpace::short_reduction_blocks(const RegisterTile& t) {
  IteratorId n = t.vector;
  if (!parallel_dim(n)) return;
  int64_t step = tile_step(t, n), share = ceil_div(extent(n), target_.threads);
  std::vector<int64_t> widths;
  for (int64_t columns : {int64_t{512}, share, int64_t{4096}}) {
    int64_t width = ceil_div(std::min(columns, extent(n)), step) * step;
    bool known = std::find(widths.begin(), widths.end(), width) != widths.end();
    if (width > step && !known) widths.push_back(width);
  }
  for (int64_t width : widths) {
    for (int64_t depth : {int64_t{16}, int64_t{32}, int64_t{128}})
      short_reduction_blocks_by(t, width, depth);
  }
}

void PieceSpace::short_reduction_blocks_by(const RegisterTile& t, int64_t width, int64_t depth) {
  IteratorId n = t.vector, k = longest_reduction();
  if (extent(k) < 4 * depth) return;
  std::vector<Loop> outer{{n, width, Binding::serial}}, inside;
  for (const Loop& l : natural_order(t)) {
    bool tiled = l.iterator == n || tile_step(t, l.iterator) > 1 || extent(l.iterator) == 1;
    (tiled ? inside : outer).push_back(l);
  }
  outer.push_back({k, depth, Binding::serial});
  size_t level = outer.size();
  // The operand along the vector is the long one: each of its tiles is used up at once.
  std::stable_partition(inside.begin(), inside.end(),
                        [&](const Loop& l) { return l.iterator == n; });
  outer.insert(outer.end(), inside.begin(), inside.end());
  PieceSchedule s = with(t, outer);
  consider(t, s);
  if (t.unrolled.empty()) return;
  pack_operands(t, s, level);
  PieceSchedule rows = s;
  std::erase_if(rows.packings, [&](const Packing& p) { return along(t, p, rows); });
  if (rows.packings.size() < s.packings.size() && !rows.packings.empty()) {
    consider(t, rows);
  }
  if (!s.packings.empty()) consider(t, s);
}

void PieceSpace::blocked_copy(const RegisterTile& t) {
  if (!t.vector.valid()) return;
  for (size_t u = 0; u < piece_.parallel_dims; ++u) {
    IteratorId iterator(u);
    bool along = std::any_of(
        model_.accesses().begin(), model_.accesses().end(),
        [&](const auto& a) { return std::abs(a.strides[u]) == 1 && a.strides[t.vector] > 1; });
    if (!along || iterator == t.vector || extent(iterator) < 16) continue;
    if (tile_step(t, iterator) > 1) {
      blocked_tiles(t, iterator);
      continue;
    }
    for (int64_t size : {int64_t{16}, kBlock}) {
      int64_t step = tile_step(t, iterator);
      int64_t block = ceil_div(size, step) * step;
      std::vector<Loop> outer = natural_order(t);
      auto at = std::find_if(outer.begin(), outer.end(),
                             [&](const Loop& l) { return l.iterator == iterator; });
      Loop inner = *at;
      at->step = block;
      auto v = std::find_if(outer.begin(), outer.end(),
                            [&](const Loop& l) { return l.iterator == t.vector; });
      std::rotate(v, v + 1, outer.end());
      outer.insert(outer.end() - 1, inner);
      if (block <= step) continue;
      consider(with(t, outer));
      std::swap(outer.back(), outer[outer.size() - 2]);
      consider(with(t, outer));
      copy_through_buffer(t, iterator, block);
    }
  }
}

// The square of tiles: a tile stores rows of one vector, of which the tiles beside it have the
// rest.
void PieceSpace::blocked_tiles(const RegisterTile& t, IteratorId along) {
  std::vector<Loop> outer;
  for (const Loop& l : natural_order(t)) {
    if (l.iterator != along && l.iterator != t.vector) outer.push_back(l);
  }
  for (IteratorId u : {along, t.vector}) {
    outer.push_back({u, ceil_div(kBlock, tile_step(t, u)) * tile_step(t, u), Binding::serial});
  }
  for (IteratorId u : {along, t.vector}) {
    if (outer[outer.size() - 2].step <= tile_step(t, u)) return;
    outer.push_back({u, tile_step(t, u), Binding::serial});
  }
  consider(with(t, outer));
}

void PieceSpace::copy_through_buffer(const RegisterTile& t, IteratorId along, int64_t block) {
  int64_t columns = ceil_div(kBlock, tile_step(t, t.vector)) * tile_step(t, t.vector);
  if (columns <= tile_step(t, t.vector) || tile_step(t, along) != 1) return;
  std::vector<Loop> outer;
  for (const Loop& l : natural_order(t)) {
    if (l.iterator != along && l.iterator != t.vector) outer.push_back(l);
  }
  outer.push_back({along, block, Binding::serial});
  outer.push_back({t.vector, columns, Binding::serial});
  size_t level = outer.size();
  outer.push_back({along, 1, Binding::serial});
  outer.push_back({t.vector, tile_step(t, t.vector), Binding::serial});
  PieceSchedule s = with(t, outer);
  for (size_t i = 0; i < piece_.loads.size(); ++i) {
    const PieceModel::AccessModel& a = model_.accesses()[i];
    bool strided = a.strides[along] != 0 && std::abs(a.strides[t.vector]) > 1;
    if (!strided) continue;
    Packing p{i, level, {}};
    p.order = {{t.vector, 1, Binding::serial}, {along, 1, Binding::serial}};
    s.packings.push_back(std::move(p));
  }
  if (!s.packings.empty()) consider(std::move(s));
}

}  // namespace tile
