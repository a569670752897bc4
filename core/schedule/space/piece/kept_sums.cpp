// Blocks of reductions that pass by while the sums of some cells stay in the second-level cache.
#include <algorithm>

#include "core/schedule/space/piece/tiling_families.h"

namespace tile {
namespace {

class KeptSums : TilingFamily {
 public:
  explicit KeptSums(const TilingParts& parts) : TilingFamily(parts) {}
  void run(const RegisterTile& t) const;

 private:
  bool shares_operands() const;
  void of(const RegisterTile& t, const std::vector<Loop>& shares) const;
  // Shares of rows that threads cannot divide equally, for each value of a parallel dimension
  // outside the tile.
  void outer_shares(const RegisterTile& t, const Loop& row) const;
  // Parts of the parallel dimension in whole tiles, one or two for each thread.
  std::vector<Loop> shares_of(const RegisterTile& t, IteratorId u) const;
  void consider(const RegisterTile& t, const std::vector<Loop>& shares,
                const std::vector<Loop>& blocks) const;
  // Blocks of the reductions, those that reach furthest first, of which the cells of `range` need
  // no more than so many bytes; none where all fit or nothing does.
  std::vector<Loop> passing_blocks(const RegisterTile& t, IterationBox range, int64_t most) const;
};

// What no two cells share is read once in any order.
bool KeptSums::shares_operands() const {
  const auto& accesses = c_.facts.accesses;
  auto loads = static_cast<std::ptrdiff_t>(c_.piece.loads.size());
  return std::any_of(accesses.begin(), accesses.begin() + loads,
                     [&](const AccessFacts& a) { return a.uses > 1; });
}

void KeptSums::run(const RegisterTile& t) const {
  if (!t.vector.valid() || !c_.is_parallel_dim(t.vector) || !shares_operands()) return;
  std::vector<Loop> columns = shares_of(t, t.vector), rows;
  for (auto [m, count] : t.unrolled) {
    for (const Loop& l : shares_of(t, m)) rows.push_back(l);
  }
  for (const Loop& l : columns) of(t, {l});
  for (const Loop& l : rows) of(t, {l});
  // Shares of both, so that threads have enough of them.
  for (const Loop& column : columns) {
    for (const Loop& row : rows) {
      bool both = column.step < c_.extent(column.iterator) && row.step < c_.extent(row.iterator);
      if (both) of(t, {column, row});
    }
  }
  for (const Loop& row : rows) {
    bool equal = c_.extent(row.iterator) % (row.step * c_.target.threads) == 0;
    if (!equal && row.step < c_.extent(row.iterator)) outer_shares(t, row);
  }
}

void KeptSums::outer_shares(const RegisterTile& t, const Loop& row) const {
  for (const Loop& l : p_.orders.natural(t)) {
    if (c_.tile_step(t, l.iterator) > 1 || c_.extent(l.iterator) < 2) continue;
    of(t, {l, row});
    return;
  }
}

std::vector<Loop> KeptSums::shares_of(const RegisterTile& t, IteratorId u) const {
  std::vector<Loop> shares;
  for (int64_t parts : {c_.target.threads, 2 * c_.target.threads}) {
    int64_t step = c_.tile_step(t, u);
    Loop share{u, ceil_div(ceil_div(c_.extent(u), parts), step) * step, Binding::serial};
    bool known = std::find(shares.begin(), shares.end(), share) != shares.end();
    if (!known && (share.step < c_.extent(u) || parts == 1)) shares.push_back(share);
  }
  return shares;
}

void KeptSums::of(const RegisterTile& t, const std::vector<Loop>& shares) const {
  IterationBox range = c_.piece.box;
  for (const Loop& l : shares) {
    range[l.iterator] = std::min(l.step, c_.extent(l.iterator));
  }
  std::vector<Loop> blocks, before;
  for (int64_t part : {2, 4}) {
    blocks = passing_blocks(t, range, c_.target.l2_bytes / part);
    if (!blocks.empty() && blocks != before) consider(t, shares, blocks);
    before = blocks;
  }
}

void KeptSums::consider(const RegisterTile& t, const std::vector<Loop>& shares,
                        const std::vector<Loop>& blocks) const {
  std::vector<Loop> outer = shares;
  outer.insert(outer.end(), blocks.begin(), blocks.end());
  for (const Loop& l : p_.orders.natural(t)) {
    bool whole = std::any_of(shares.begin(), shares.end(), [&](const Loop& share) {
      return share.iterator == l.iterator && share.step <= l.step;
    });
    if (!whole) outer.push_back(l);
  }
  PieceSchedule s = p_.inner.schedule(t, outer);
  std::erase_if(s.reduce, [&](const Loop& l) {
    return std::any_of(blocks.begin(), blocks.end(), [&](const Loop& block) {
      return block.iterator == l.iterator && block.step <= l.step;
    });
  });
  p_.consider(t, s);
}

std::vector<Loop> KeptSums::passing_blocks(const RegisterTile& t, IterationBox range,
                                           int64_t most) const {
  auto fit = [&] {
    double bytes = 0;
    for (const AccessFacts& a : c_.facts.accesses) bytes += a.footprint(range);
    return bytes <= static_cast<double>(most);
  };
  std::vector<Loop> blocks;
  for (const Loop& l : p_.inner.reductions(t)) {
    bool cut = std::any_of(blocks.begin(), blocks.end(),
                           [&](const Loop& block) { return block.iterator == l.iterator; });
    int64_t all = c_.extent(l.iterator);
    if (cut || l.binding != Binding::serial || all == 1) continue;
    int64_t& block = range[l.iterator];
    while (!fit() && block > l.step) block = ceil_div(ceil_div(block, 2), l.step) * l.step;
    if (block < all) blocks.push_back({l.iterator, block, Binding::serial});
    if (fit()) return blocks;
  }
  return {};
}

}  // namespace

void consider_kept_sums(const TilingParts& parts, const RegisterTile& t) { KeptSums(parts).run(t); }

}  // namespace tile
