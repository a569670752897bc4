// Blocks for the second-level cache, with and without packed operands.
#include <algorithm>
#include <initializer_list>
#include <utility>

#include "core/schedule/space/piece/tiling_families.h"

namespace tile {
namespace {

// Multiples of the tile that cut the extent into equal parts of at most a few hundred, a multiple
// of `share` of them.
std::vector<int64_t> block_sizes(const TilingContext& c, IteratorId u, int64_t step,
                                 int64_t share = 1) {
  std::vector<int64_t> sizes;
  for (int64_t target : {int64_t{240}, int64_t{448}}) {
    int64_t parts = std::max<int64_t>(1, (c.extent(u) + target / 2) / target);
    parts = ceil_div(parts, share) * share;
    int64_t size = ceil_div(ceil_div(c.extent(u), parts), step) * step;
    if (size > step && std::find(sizes.begin(), sizes.end(), size) == sizes.end()) {
      sizes.push_back(size);
    }
  }
  return sizes;
}

// Depths of a block of the longest reduction; 0: not cut.
std::vector<int64_t> depths(const TilingContext& c, std::initializer_list<int64_t> targets) {
  int64_t all = c.extent(c.longest_reduction());
  std::vector<int64_t> sizes{0};
  for (int64_t target : targets) {
    if (all < 2 * target) continue;
    int64_t parts = (all + target / 2) / target;
    sizes.push_back(ceil_div(ceil_div(all, parts), 8) * 8);
  }
  return sizes;
}

// Blocks of rows, of columns and of the reduction, both operands packed.
class CacheBlocks : TilingFamily {
 public:
  explicit CacheBlocks(const TilingParts& parts) : TilingFamily(parts) {}
  void run(const RegisterTile& t) const;

 private:
  void blocked_by(const RegisterTile& t, IteratorId m, int64_t rows, IteratorId n, int64_t columns,
                  int64_t depth) const;
};

void CacheBlocks::run(const RegisterTile& t) const {
  IteratorId m = t.unrolled[0].first, n = t.vector;
  for (int64_t rows : block_sizes(c_, m, c_.tile_step(t, m))) {
    for (int64_t columns : block_sizes(c_, n, c_.tile_step(t, n))) {
      for (int64_t depth : depths(c_, {256})) blocked_by(t, m, rows, n, columns, depth);
    }
  }
}

void CacheBlocks::blocked_by(const RegisterTile& t, IteratorId m, int64_t rows, IteratorId n,
                             int64_t columns, int64_t depth) const {
  std::vector<Loop> outer, inside;
  for (const Loop& l : p_.orders.natural(t)) {
    bool block = l.iterator == m || l.iterator == n;
    bool trivial = c_.extent(l.iterator) == 1;
    if (!block && !trivial) outer.push_back(l);
    if (trivial && !block) inside.push_back(l);
  }
  outer.push_back({m, rows, Binding::serial});
  outer.push_back({n, columns, Binding::serial});
  if (depth > 0) outer.push_back({c_.longest_reduction(), depth, Binding::serial});
  size_t level = outer.size();
  outer.insert(outer.end(), inside.begin(), inside.end());
  outer.push_back({n, c_.tile_step(t, n), Binding::serial});
  outer.push_back({m, c_.tile_step(t, m), Binding::serial});
  PieceSchedule s = p_.inner.schedule(t, outer);
  p_.consider(t, s);
  p_.packing.pack(t, s, level);
  p_.consider(t, s);
}

// Blocks of rows and, where depth is not 0, of a long reduction: the operand along the vector is
// packed once, for all blocks of rows; long blocks visit the sums less often.
class SharedPanels : TilingFamily {
 public:
  explicit SharedPanels(const TilingParts& parts) : TilingFamily(parts) {}
  void run(const RegisterTile& t) const;

 private:
  int64_t resident_rows(const RegisterTile& t, IteratorId m) const;
  void shared_panels(const RegisterTile& t, IteratorId m, int64_t rows, int64_t depth) const;
};

void SharedPanels::run(const RegisterTile& t) const {
  IteratorId m = t.unrolled[0].first;
  for (int64_t rows : block_sizes(c_, m, c_.tile_step(t, m), c_.target.threads)) {
    for (int64_t depth : depths(c_, {512, 1024})) shared_panels(t, m, rows, depth);
  }
  int64_t rows = resident_rows(t, m);
  if (rows > c_.tile_step(t, m)) shared_panels(t, m, rows, 0);
}

// Rows that stay in the first cache beside the operand of one tile along the vector.
int64_t SharedPanels::resident_rows(const RegisterTile& t, IteratorId m) const {
  IterationBox range = c_.piece.box;
  for (size_t u = 0; u < c_.piece.parallel_dims; ++u) {
    range[u] = std::min(range[u], c_.tile_step(t, IteratorId(u)));
  }
  auto fits = [&](int64_t rows) {
    range[m] = rows;
    double bytes = 0;
    for (const AccessFacts& a : c_.facts.accesses) {
      if (!a.store) bytes += a.footprint(range);
    }
    return bytes <= kUsableCache * static_cast<double>(c_.target.l1_bytes);
  };
  int64_t step = c_.tile_step(t, m), rows = 0;
  while (rows < c_.extent(m) && fits(rows + step)) rows += step;
  return std::min(rows, ceil_div(ceil_div(c_.extent(m), c_.target.threads), step) * step);
}

void SharedPanels::shared_panels(const RegisterTile& t, IteratorId m, int64_t rows,
                                 int64_t depth) const {
  IteratorId k = c_.longest_reduction();
  if (rows >= c_.extent(m)) return;
  std::vector<Loop> outer, inside;
  for (const Loop& l : p_.orders.natural(t)) {
    bool block = l.iterator == m || l.iterator == t.vector;
    if (!block) (c_.extent(l.iterator) == 1 ? inside : outer).push_back(l);
  }
  outer.push_back({m, rows, Binding::serial});
  if (depth > 0) outer.push_back({k, depth, Binding::serial});
  size_t level = outer.size();
  outer.insert(outer.end(), inside.begin(), inside.end());
  outer.push_back({t.vector, c_.tile_step(t, t.vector), Binding::serial});
  outer.push_back({m, c_.tile_step(t, m), Binding::serial});
  PieceSchedule s = p_.inner.schedule(t, outer), blocks = s;
  auto uses = [&](const Packing& p, IteratorId u) {
    const AccessFacts& a = c_.facts.load(p.load);
    return a.strides[u] != 0;
  };
  p_.packing.pack(t, s, 0);
  std::erase_if(s.packings, [&](const Packing& p) {
    return uses(p, m) || !uses(p, k) || !OperandPacking::along(t, p, s);
  });
  if (s.packings.empty()) return;
  p_.consider(t, p_.inner.schedule(t, outer));
  for (Packing& p : s.packings) {
    if (depth > 0) p.order.insert(p.order.begin(), {k, depth, Binding::serial});
  }
  p_.consider(t, s);
  p_.packing.pack(t, blocks, level);
  for (Packing& p : blocks.packings) {
    if (uses(p, m)) s.packings.push_back(std::move(p));
  }
  p_.consider(t, s);
}

}  // namespace

void consider_cache_blocks(const TilingParts& parts, const RegisterTile& t) {
  const TilingContext& c = parts.context;
  if (!t.vector.valid() || !c.is_parallel_dim(t.vector) || t.unrolled.empty()) return;
  if (c.bytes < static_cast<double>(c.target.l2_bytes) / 2) return;
  CacheBlocks(parts).run(t);
  SharedPanels(parts).run(t);
}

}  // namespace tile
