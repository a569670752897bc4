// Short blocks of a reduction over long rows.
#include <algorithm>

#include "core/schedule/space/piece/tiling_families.h"

namespace tile {
namespace {

class ShortReductionBlocks : TilingFamily {
 public:
  explicit ShortReductionBlocks(const TilingParts& parts) : TilingFamily(parts) {}
  void run(const RegisterTile& t) const;

 private:
  void by(const RegisterTile& t, int64_t width, int64_t depth) const;
};

void ShortReductionBlocks::run(const RegisterTile& t) const {
  IteratorId n = t.vector;
  if (!n.valid() || !c_.is_parallel_dim(n)) return;
  int64_t step = c_.tile_step(t, n), share = ceil_div(c_.extent(n), c_.target.threads);
  std::vector<int64_t> widths;
  for (int64_t columns : {int64_t{512}, share, int64_t{4096}}) {
    int64_t width = ceil_div(std::min(columns, c_.extent(n)), step) * step;
    bool known = std::find(widths.begin(), widths.end(), width) != widths.end();
    if (width > step && !known) widths.push_back(width);
  }
  for (int64_t width : widths) {
    for (int64_t depth : {int64_t{16}, int64_t{32}, int64_t{128}}) by(t, width, depth);
  }
}

void ShortReductionBlocks::by(const RegisterTile& t, int64_t width, int64_t depth) const {
  IteratorId n = t.vector, k = c_.longest_reduction();
  if (c_.extent(k) < 4 * depth) return;
  std::vector<Loop> outer{{n, width, Binding::serial}}, inside;
  for (const Loop& l : p_.orders.natural(t)) {
    bool tiled = l.iterator == n || c_.tile_step(t, l.iterator) > 1 || c_.extent(l.iterator) == 1;
    (tiled ? inside : outer).push_back(l);
  }
  outer.push_back({k, depth, Binding::serial});
  size_t level = outer.size();
  // The operand along the vector is the long one: each of its tiles is used up at once.
  std::stable_partition(inside.begin(), inside.end(),
                        [&](const Loop& l) { return l.iterator == n; });
  outer.insert(outer.end(), inside.begin(), inside.end());
  PieceSchedule s = p_.inner.schedule(t, outer);
  p_.consider(t, s);
  if (t.unrolled.empty()) return;
  p_.packing.pack(t, s, level);
  PieceSchedule rows = s;
  std::erase_if(rows.packings, [&](const Packing& p) { return OperandPacking::along(t, p, rows); });
  if (rows.packings.size() < s.packings.size() && !rows.packings.empty()) {
    p_.consider(t, rows);
  }
  if (!s.packings.empty()) p_.consider(t, s);
}

}  // namespace

void consider_short_reduction_blocks(const TilingParts& parts, const RegisterTile& t) {
  ShortReductionBlocks(parts).run(t);
}

}  // namespace tile
