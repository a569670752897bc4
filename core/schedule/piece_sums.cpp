// Blocks of reductions that pass by while the sums of some cells stay in the second-level cache.
#include <algorithm>

#include "core/schedule/piece_space.h"

namespace tile {

void PieceSpace::kept_sums(const RegisterTile& t) {
  if (t.vector < 0 || !owner(t.vector)) return;
  std::vector<int> splits{t.vector};
  for (auto [m, rows] : t.unrolled) splits.push_back(m);
  std::vector<std::pair<int, int64_t>> tried;
  for (int u : splits) {
    for (int64_t parts : {target_.threads, 2 * target_.threads}) {
      int64_t step = tile_step(t, u);
      int64_t width = ceil_div(ceil_div(extent(u), parts), step) * step;
      bool known = std::find(tried.begin(), tried.end(), std::pair(u, width)) != tried.end();
      if (known || (width >= extent(u) && parts > 1)) continue;
      tried.emplace_back(u, width);
      kept_sums_of(t, u, width);
    }
  }
}

void PieceSpace::kept_sums_of(const RegisterTile& t, int split, int64_t width) {
  std::vector<int64_t> range = piece_.box;
  range[static_cast<size_t>(split)] = std::min(width, extent(split));
  std::vector<Loop> outer = passing_blocks(t, std::move(range));
  if (outer.empty()) return;
  outer.insert(outer.begin(), {split, width, Binding::serial});
  for (const Loop& l : natural_order(t)) {
    if (l.unknown != split || l.step < width) outer.push_back(l);
  }
  PieceSchedule s = with(t, outer);
  std::erase_if(s.reduce, [&](const Loop& l) {
    return std::any_of(outer.begin(), outer.end(), [&](const Loop& block) {
      return block.unknown == l.unknown && block.step <= l.step;
    });
  });
  consider(t, s);
}

std::vector<Loop> PieceSpace::passing_blocks(const RegisterTile& t,
                                             std::vector<int64_t> range) const {
  auto fit = [&] {
    double bytes = 0;
    for (const PieceModel::AccessModel& a : model_.accesses()) bytes += model_.footprint(a, range);
    return bytes <= static_cast<double>(target_.l2_bytes) / 2;
  };
  std::vector<Loop> blocks;
  for (const Loop& l : reduce_loops(t)) {
    bool cut = std::any_of(blocks.begin(), blocks.end(),
                           [&](const Loop& block) { return block.unknown == l.unknown; });
    int64_t all = extent(l.unknown);
    if (cut || l.binding != Binding::serial || all == 1) continue;
    int64_t& block = range[static_cast<size_t>(l.unknown)];
    while (!fit() && block > l.step) block = ceil_div(ceil_div(block, 2), l.step) * l.step;
    if (block < all) blocks.push_back({l.unknown, block, Binding::serial});
    if (fit()) return blocks;
  }
  return {};
}

}  // namespace tile
