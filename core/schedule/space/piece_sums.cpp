// Blocks of reductions that pass by while the sums of some cells stay in the second-level cache.
#include <algorithm>

#include "core/schedule/space/piece_space.h"

namespace tile {

// What no two cells share is read once in any order.
bool PieceSpace::shares_operands() const {
  const auto& accesses = model_.accesses();
  auto loads = static_cast<std::ptrdiff_t>(piece_.loads.size());
  return std::any_of(accesses.begin(), accesses.begin() + loads,
                     [&](const PieceModel::AccessModel& a) { return a.uses > 1; });
}

void PieceSpace::kept_sums(const RegisterTile& t) {
  if (!t.vector.valid() || !parallel_dim(t.vector) || !shares_operands()) return;
  std::vector<Loop> columns = shares_of(t, t.vector), rows;
  for (auto [m, count] : t.unrolled) {
    for (const Loop& l : shares_of(t, m)) rows.push_back(l);
  }
  for (const Loop& l : columns) kept_sums_of(t, {l});
  for (const Loop& l : rows) kept_sums_of(t, {l});
  // Shares of both, so that threads have enough of them.
  for (const Loop& column : columns) {
    for (const Loop& row : rows) {
      bool both = column.step < extent(column.iterator) && row.step < extent(row.iterator);
      if (both) kept_sums_of(t, {column, row});
    }
  }
  for (const Loop& row : rows) {
    bool equal = extent(row.iterator) % (row.step * target_.threads) == 0;
    if (!equal && row.step < extent(row.iterator)) outer_shares(t, row);
  }
}

void PieceSpace::outer_shares(const RegisterTile& t, const Loop& row) {
  for (const Loop& l : natural_order(t)) {
    if (tile_step(t, l.iterator) > 1 || extent(l.iterator) < 2) continue;
    kept_sums_of(t, {l, row});
    return;
  }
}

std::vector<Loop> PieceSpace::shares_of(const RegisterTile& t, IteratorId u) const {
  std::vector<Loop> shares;
  for (int64_t parts : {target_.threads, 2 * target_.threads}) {
    int64_t step = tile_step(t, u);
    Loop share{u, ceil_div(ceil_div(extent(u), parts), step) * step, Binding::serial};
    bool known = std::find(shares.begin(), shares.end(), share) != shares.end();
    if (!known && (share.step < extent(u) || parts == 1)) shares.push_back(share);
  }
  return shares;
}

void PieceSpace::kept_sums_of(const RegisterTile& t, const std::vector<Loop>& shares) {
  IterationBox range = piece_.box;
  for (const Loop& l : shares) {
    range[l.iterator] = std::min(l.step, extent(l.iterator));
  }
  std::vector<Loop> blocks, before;
  for (int64_t part : {2, 4}) {
    blocks = passing_blocks(t, range, target_.l2_bytes / part);
    if (!blocks.empty() && blocks != before) consider_sums(t, shares, blocks);
    before = blocks;
  }
}

void PieceSpace::consider_sums(const RegisterTile& t, const std::vector<Loop>& shares,
                               const std::vector<Loop>& blocks) {
  std::vector<Loop> outer = shares;
  outer.insert(outer.end(), blocks.begin(), blocks.end());
  for (const Loop& l : natural_order(t)) {
    bool whole = std::any_of(shares.begin(), shares.end(), [&](const Loop& share) {
      return share.iterator == l.iterator && share.step <= l.step;
    });
    if (!whole) outer.push_back(l);
  }
  PieceSchedule s = with(t, outer);
  std::erase_if(s.reduce, [&](const Loop& l) {
    return std::any_of(blocks.begin(), blocks.end(), [&](const Loop& block) {
      return block.iterator == l.iterator && block.step <= l.step;
    });
  });
  consider(t, s);
}

std::vector<Loop> PieceSpace::passing_blocks(const RegisterTile& t, IterationBox range,
                                             int64_t most) const {
  auto fit = [&] {
    double bytes = 0;
    for (const PieceModel::AccessModel& a : model_.accesses()) bytes += model_.footprint(a, range);
    return bytes <= static_cast<double>(most);
  };
  std::vector<Loop> blocks;
  for (const Loop& l : reduce_loops(t)) {
    bool cut = std::any_of(blocks.begin(), blocks.end(),
                           [&](const Loop& block) { return block.iterator == l.iterator; });
    int64_t all = extent(l.iterator);
    if (cut || l.binding != Binding::serial || all == 1) continue;
    int64_t& block = range[l.iterator];
    while (!fit() && block > l.step) block = ceil_div(ceil_div(block, 2), l.step) * l.step;
    if (block < all) blocks.push_back({l.iterator, block, Binding::serial});
    if (fit()) return blocks;
  }
  return {};
}

}  // namespace tile
