// Aligned candidates of a piece: register tiles, then the order of the loops around them, blocks
// for the caches with packed operands, and threads. Built from extents and the target alone.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/schedule/dots.h"
#include "core/schedule/gpu_forms.h"
#include "core/schedule/rows.h"
#include "core/schedule/space.h"
#include "core/schedule/tensor_cores.h"
#include "core/schedule/window.h"

namespace tile {
namespace {

constexpr size_t kMostPacked = 6;  // loads of one body: copies of more crowd the cache out
constexpr int64_t kTasksPerThread = 4;
constexpr int64_t kMostPicked = 8;  // values of a reduction that are written out for joined lanes
constexpr int64_t kMostTaps = 4;    // and taps of a window
constexpr double kReuses = 4;       // of an element that are worth a copy of its operand

class PieceSpace {
 public:
  PieceSpace(const Kernel& kernel, size_t stage, size_t piece, const Target& target,
             const Breadth& breadth)
      : contraction_(kernel.stages[stage].contraction),
        piece_(contraction_.pieces[piece]),
        kernel_(kernel),
        target_(target),
        breadth_(breadth),
        model_(piece_, contraction_, kernel, target) {}

  std::vector<RankedPiece> ranked() {
    carried();
    tiled();
    for (int64_t group : {2, 4}) {
      dot_ = dot_form(piece_, contraction_, kernel_.tensors, group);
      if (dot_ && dot_per_ns(*dot_, target_) > 0 && dot_unknown() >= 0) tiled();
    }
    if (ranked_.empty())
      ranked_.push_back({model_.nanoseconds(plain_schedule(piece_)), plain_schedule(piece_)});
    std::stable_sort(ranked_.begin(), ranked_.end(),
                     [](const auto& a, const auto& b) { return a.nanoseconds < b.nanoseconds; });
    return std::move(ranked_);
  }

 private:
  int64_t extent(int u) const { return piece_.box[static_cast<size_t>(u)]; }
  bool owner(int u) const { return static_cast<size_t>(u) < piece_.owners; }

  // The loops around each of the best register tiles.
  void tiled() {
    std::vector<RegisterTile> tiles = best_tiles();
    for (size_t i = 0; i < tiles.size(); ++i) {
      bool reduces = piece_.owners < piece_.box.size();
      for (const std::vector<Loop>& outer : orders(tiles[i])) {
        PieceSchedule s = with(tiles[i], outer);
        consider(s);
        if (reduces && i < breadth_.blocked) panelled(tiles[i], std::move(s));
      }
      if (reduces && i < breadth_.blocked) blocked(tiles[i]);
      if (reduces && i < breadth_.blocked) streamed(tiles[i]);
      if (!reduces) blocked_copy(tiles[i]);
    }
  }

  // The reduction whose neighbours a dot packs: the one that steps through memory in the smallest
  // strides; -1: none or no dot.
  int dot_unknown() const {
    int best = -1;
    for (size_t u = piece_.owners; u < piece_.box.size() && dot_; ++u) {
      bool longer = piece_.box[u] > 1 && packs_along(*dot_, piece_, u);
      auto unknown = static_cast<int>(u);
      if (longer && (best < 0 || reach(unknown) <= reach(best))) best = unknown;
    }
    return best;
  }
  // The largest stride of the operands along a reduction.
  int64_t reach(int u) const {
    int64_t most = 0;
    for (const PieceModel::AccessModel& a : model_.accesses()) {
      most = std::max(most, std::abs(a.strides[static_cast<size_t>(u)]));
    }
    return most;
  }

  // Step of the tile's outermost loop over u: 1 outside the tile.
  int64_t tile_step(const RegisterTile& t, int u) const {
    if (u == t.vector && owner(u)) return t.vectors * model_.lanes();
    if (u == t.joined) return t.rows;
    for (auto [m, rows] : t.unrolled) {
      if (m == u) return rows;
    }
    return 1;
  }

  // The best tiles by their own cycles, in the simplest order of loops.
  std::vector<RegisterTile> best_tiles() {
    std::vector<std::pair<double, RegisterTile>> scored;
    for (RegisterTile& t : register_tiles(piece_, contraction_, model_, target_)) {
      PieceSchedule s = with(t, natural_order(t));
      double ns = std::numeric_limits<double>::infinity();
      if (legal(s)) ns = model_.compute_ns(s);
      if (t.vector >= 0 && piece_.owners < piece_.box.size()) {
        pack_operands(t, s, 0);
        if (!s.packings.empty() && legal(s))
          ns = std::min(ns, model_.compute_ns(s) + model_.packing_ns(s));
      }
      if (std::isfinite(ns)) scored.emplace_back(ns, std::move(t));
    }
    std::stable_sort(scored.begin(), scored.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<RegisterTile> best;
    size_t joined = 0;  // leave room for others
    for (auto& [ns, tile] : scored) {
      if (best.size() == breadth_.tiles) break;
      if (tile.joined >= 0 && ++joined > breadth_.tiles / 2) continue;
      best.push_back(std::move(tile));
    }
    return best;
  }

  // Owners by decreasing stride in the output; loops of one iteration last.
  std::vector<int> natural_owners() const {
    std::vector<int> list;
    for (size_t u = 0; u < piece_.owners; ++u) list.push_back(static_cast<int>(u));
    const PieceModel::AccessModel& out = model_.accesses()[piece_.loads.size()];
    std::stable_sort(list.begin(), list.end(), [&](int a, int b) {
      auto key = [&](int u) {
        return std::pair(extent(u) == 1, -std::abs(out.strides[static_cast<size_t>(u)]));
      };
      return key(a) < key(b);
    });
    return list;
  }
  std::vector<Loop> natural_order(const RegisterTile& t) const {
    std::vector<Loop> outer;
    for (int u : natural_owners()) outer.push_back({u, tile_step(t, u), Binding::serial});
    return outer;
  }

  // The natural order, and orders in which one tiled owner moves to either end.
  std::vector<std::vector<Loop>> orders(const RegisterTile& t) const {
    std::vector<Loop> base = natural_order(t);
    std::vector<std::vector<Loop>> all{base};
    if (t.joined >= 0) {  // few operands inside: columns of tiles, for each the other owners
      std::vector<Loop> columns = base;
      std::stable_partition(columns.begin(), columns.end(), [&](const Loop& l) {
        return l.unknown != t.joined && tile_step(t, l.unknown) > 1 && l.unknown != t.vector;
      });
      auto rest = std::find_if(columns.begin(), columns.end(),
                               [&](const Loop& l) { return tile_step(t, l.unknown) == 1; });
      auto at = std::find_if(columns.begin(), columns.end(),
                             [&](const Loop& l) { return l.unknown == t.joined; });
      if (rest < at) std::rotate(rest, at, at + 1);
      all.push_back(std::move(columns));
    }
    for (size_t i = 0; i < base.size(); ++i) {
      if (tile_step(t, base[i].unknown) == 1 || extent(base[i].unknown) == 1) continue;
      std::vector<Loop> first = base, last = base;
      std::rotate(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(i),
                  first.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      std::rotate(last.begin() + static_cast<std::ptrdiff_t>(i),
                  last.begin() + static_cast<std::ptrdiff_t>(i) + 1, last.end());
      if (i != 0) all.push_back(std::move(first));
      if (i + 1 != base.size()) all.push_back(std::move(last));
    }
    return all;
  }

  // Reductions, the one with the smallest stride innermost, the vector one last of all.
  std::vector<Loop> reduce_loops(const RegisterTile& t) const {
    std::vector<int> list;
    for (size_t u = piece_.owners; u < piece_.box.size(); ++u) list.push_back(static_cast<int>(u));
    int dot = dot_unknown();
    std::stable_sort(list.begin(), list.end(), [&](int a, int b) {
      return std::pair(a == t.vector || a == dot, -reach(a)) <
             std::pair(b == t.vector || b == dot, -reach(b));
    });
    std::vector<Loop> loops;
    if (t.joined >= 0) {
      for (int u : list) loops.push_back({u, 1, Binding::serial});
      write_out_picks(t, loops);
      return loops;
    }
    for (int u : list) {
      bool last = u == list.back();
      int64_t inner = u == t.vector ? model_.lanes() : u == dot ? dot_->group : 1;
      bool copied = last && t.copies > 1 && extent(u) > inner;
      if (copied) {
        int64_t copies = std::min(t.copies, ceil_div(extent(u), inner));
        if (copies * inner < extent(u)) loops.push_back({u, copies * inner, Binding::serial});
        loops.push_back({u, inner, Binding::unroll});
      } else if (inner > 1) {
        loops.push_back({u, inner, Binding::serial});
      }
      if (u == t.vector || u == dot) {
        loops.push_back({u, 1, u == dot ? Binding::dot : Binding::vector});
      } else if (!copied) {
        loops.push_back({u, 1, Binding::serial});
      }
    }
    return loops;
  }

  // Neighbours among which joined lanes pick are read once and picked from at known places; the
  // taps of a window along the tile's rows share what was picked.
  void write_out_picks(const RegisterTile& t, std::vector<Loop>& loops) const {
    if (extent(loops.back().unknown) > kMostPicked) return;
    loops.back().binding = Binding::unroll;
    auto tap = std::find_if(loops.begin(), loops.end() - 1, [&](const Loop& l) {
      return extent(l.unknown) <= kMostTaps && slides_along_rows(t, l.unknown);
    });
    if (tap == loops.end() - 1) return;
    tap->binding = Binding::unroll;
    std::rotate(tap, tap + 1, loops.end());
  }
  // The reduction moves a load from row to row of the tile.
  bool slides_along_rows(const RegisterTile& t, int reduction) const {
    return std::any_of(t.unrolled.begin(), t.unrolled.end(), [&](const auto& rows) {
      return std::any_of(model_.accesses().begin(), model_.accesses().end(), [&](const auto& a) {
        int64_t step = a.strides[static_cast<size_t>(reduction)];
        int64_t row = a.strides[static_cast<size_t>(rows.first)];
        return step != 0 && row != 0 && step % row == 0 && std::abs(step / row) < rows.second;
      });
    });
  }

  PieceSchedule with(const RegisterTile& t, std::vector<Loop> outer) const {
    PieceSchedule s;
    s.outer = std::move(outer);
    s.reduce = reduce_loops(t);
    for (auto [m, rows] : t.unrolled) {
      if (rows > 1) s.tile.push_back({m, 1, Binding::unroll});
    }
    if (t.vector >= 0 && owner(t.vector)) {
      if (t.vectors > 1) s.tile.push_back({t.vector, model_.lanes(), Binding::unroll});
      if (t.joined >= 0) s.tile.push_back({t.joined, 1, Binding::vector});
      s.tile.push_back({t.vector, 1, Binding::vector});
    }
    return s;
  }

  // Blocks for the second-level cache: (m block, n block, k block) with both operands packed.
  void blocked(const RegisterTile& t) {
    if (t.vector < 0 || !owner(t.vector) || t.unrolled.empty()) return;
    double whole = 0;
    for (const PieceModel::AccessModel& a : model_.accesses()) {
      whole += model_.footprint(a, piece_.box);
    }
    if (whole < static_cast<double>(target_.l2_bytes) / 2) return;
    int m = t.unrolled[0].first, n = t.vector;
    for (int64_t rows : block_sizes(m, tile_step(t, m))) {
      for (int64_t columns : block_sizes(n, tile_step(t, n))) {
        for (int64_t depth : depths({256})) blocked_by(t, m, rows, n, columns, depth);
      }
    }
    for (int64_t rows : block_sizes(m, tile_step(t, m), target_.threads)) {
      for (int64_t depth : depths({512, 1024})) shared_panels(t, m, rows, depth);
    }
  }
  // Multiples of the tile that cut the extent into equal parts of at most a few hundred, a multiple
  // of `share` of them.
  std::vector<int64_t> block_sizes(int u, int64_t step, int64_t share = 1) const {
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
  // Depths of a block of the longest reduction; 0: not cut.
  std::vector<int64_t> depths(std::initializer_list<int64_t> targets) const {
    int64_t all = extent(longest_reduction());
    std::vector<int64_t> sizes{0};
    for (int64_t target : targets) {
      if (all < 2 * target) continue;
      int64_t parts = (all + target / 2) / target;
      sizes.push_back(ceil_div(ceil_div(all, parts), 8) * 8);
    }
    return sizes;
  }
  int longest_reduction() const {
    auto longest = static_cast<int>(piece_.owners);
    for (size_t u = piece_.owners; u < piece_.box.size(); ++u) {
      if (piece_.box[u] > extent(longest)) longest = static_cast<int>(u);
    }
    return longest;
  }

  // Blocks of rows and of a long reduction: the operand along the vector is packed once, for all
  // blocks of rows; long blocks visit the sums less often.
  void shared_panels(const RegisterTile& t, int m, int64_t rows, int64_t depth) {
    int k = longest_reduction();
    if (depth == 0 || rows >= extent(m)) return;
    std::vector<Loop> outer, inside;
    for (const Loop& l : natural_order(t)) {
      bool block = l.unknown == m || l.unknown == t.vector;
      if (!block) (extent(l.unknown) == 1 ? inside : outer).push_back(l);
    }
    outer.push_back({m, rows, Binding::serial});
    outer.push_back({k, depth, Binding::serial});
    auto level = static_cast<int>(outer.size());
    outer.insert(outer.end(), inside.begin(), inside.end());
    outer.push_back({t.vector, tile_step(t, t.vector), Binding::serial});
    outer.push_back({m, tile_step(t, m), Binding::serial});
    PieceSchedule s = with(t, outer), blocks = s;
    auto uses = [&](const Packing& p, int u) {
      const PieceModel::AccessModel& a = model_.accesses()[static_cast<size_t>(p.load)];
      return a.strides[static_cast<size_t>(u)] != 0;
    };
    pack_operands(t, s, 0);
    std::erase_if(s.packings,
                  [&](const Packing& p) { return uses(p, m) || !uses(p, k) || !along(t, p, s); });
    if (s.packings.empty()) return;
    for (Packing& p : s.packings) p.order.insert(p.order.begin(), {k, depth, Binding::serial});
    consider(s);
    pack_operands(t, blocks, level);
    for (Packing& p : blocks.packings) {
      if (uses(p, m)) s.packings.push_back(std::move(p));
    }
    consider(std::move(s));
  }

  void blocked_by(const RegisterTile& t, int m, int64_t rows, int n, int64_t columns,
                  int64_t depth) {
    std::vector<Loop> outer, inside;
    for (const Loop& l : natural_order(t)) {
      bool block = l.unknown == m || l.unknown == n;
      bool trivial = extent(l.unknown) == 1;
      if (!block && !trivial) outer.push_back(l);
      if (trivial && !block) inside.push_back(l);
    }
    outer.push_back({m, rows, Binding::serial});
    outer.push_back({n, columns, Binding::serial});
    if (depth > 0) outer.push_back({longest_reduction(), depth, Binding::serial});
    auto level = static_cast<int>(outer.size());
    outer.insert(outer.end(), inside.begin(), inside.end());
    outer.push_back({n, tile_step(t, n), Binding::serial});
    outer.push_back({m, tile_step(t, m), Binding::serial});
    PieceSchedule s = with(t, outer);
    consider(s);
    pack_operands(t, s, level);
    consider(std::move(s));
  }

  // Operands along the vector alone, such as weights, in panels: all at once before the loops, or
  // the panel of one tile inside the loop over tiles where that is the outermost. And operands of
  // several owners as a whole, so that a contraction of permuted tensors reads them in order.
  void panelled(const RegisterTile& t, const PieceSchedule& s) {
    if (t.vector < 0) return;
    PieceSchedule whole = s;
    pack_operands(t, whole, 0);
    std::erase_if(whole.packings, [&](const Packing& p) { return !reused(p.load); });
    if (!whole.packings.empty()) consider(whole);
    if (!owner(t.vector)) return;
    std::erase_if(whole.packings, [&](const Packing& p) { return !along(t, p, whole); });
    if (!whole.packings.empty()) consider(std::move(whole));
    for (int level : {0, 1}) {
      if (level == 1 && s.outer[0].unknown != t.vector) continue;
      PieceSchedule packed = s;
      pack_operands(t, packed, level);
      std::erase_if(packed.packings, [&](const Packing& p) {
        return std::any_of(
                   p.order.begin(), p.order.end(),
                   [&](const Loop& l) { return owner(l.unknown) && l.unknown != t.vector; }) ||
               !along(t, p, packed);
      });
      if (packed.packings.empty()) continue;
      consider(std::move(packed));
    }
  }

  // Whether the vector's elements are neighbours in the copy.
  static bool along(const RegisterTile& t, const Packing& p, const PieceSchedule& s) {
    size_t loops = packed_loops(p, s);
    return loops > 0 && p.order[loops - 1].unknown == t.vector;
  }

  // Whether each element of the load is read so often that copying all of it pays.
  bool reused(int load) const {
    return model_.uses(model_.accesses()[static_cast<size_t>(load)]) >= kReuses;
  }

  // Prefix and suffix reductions and sliding windows: vectors along an owner that memory has
  // contiguous, or several rows at a time.
  void carried() {
    std::optional<size_t> along = carried_owner(piece_, contraction_, target_);
    if (!along) return;
    bool window = window_form(piece_, contraction_).has_value();
    const PieceModel::AccessModel& out = model_.accesses()[piece_.loads.size()];
    auto plain = [&] {
      PieceSchedule s;
      s.carried = static_cast<int>(*along);
      for (int u : natural_owners()) {
        if (u != s.carried) s.outer.push_back({u, 1, Binding::serial});
      }
      return s;
    };
    consider(plain());
    for (size_t u = 0; u < piece_.owners; ++u) {
      if (u == *along || piece_.box[u] < 2) continue;
      auto unknown = static_cast<int>(u);
      // Lanes of a window gather where they must: its loads are few beside the taps they spare.
      bool contiguous = std::abs(out.strides[u]) == 1 || window;
      int64_t lanes = model_.lanes();
      for (int64_t n : {int64_t{1}, int64_t{4}, int64_t{8}}) {
        int64_t block = contiguous ? n * lanes : n;
        if (block < 2 || (n > 1 && block >= 2 * piece_.box[u])) continue;
        PieceSchedule s = plain();
        for (Loop& l : s.outer) l.step = l.unknown == unknown ? block : l.step;
        if (contiguous && n > 1) s.tile.push_back({unknown, lanes, Binding::unroll});
        s.tile.push_back({unknown, 1, contiguous ? Binding::vector : Binding::unroll});
        consider(std::move(s));
      }
    }
  }

  // A short block of the reduction over long rows: operands are read in the order of memory, or in
  // copies of the block; the partial sums stay in the cache.
  void streamed(const RegisterTile& t) {
    int n = t.vector;
    if (n < 0 || !owner(n)) return;
    int64_t step = tile_step(t, n), share = ceil_div(extent(n), target_.threads);
    std::vector<int64_t> widths;
    for (int64_t columns : {int64_t{512}, share, int64_t{4096}}) {
      int64_t width = ceil_div(std::min(columns, extent(n)), step) * step;
      bool known = std::find(widths.begin(), widths.end(), width) != widths.end();
      if (width > step && !known) widths.push_back(width);
    }
    for (int64_t width : widths) {
      for (int64_t depth : {int64_t{8}, int64_t{32}, int64_t{128}}) streamed_by(t, width, depth);
    }
  }
  void streamed_by(const RegisterTile& t, int64_t width, int64_t depth) {
    int n = t.vector, k = longest_reduction();
    if (extent(k) < 4 * depth) return;
    std::vector<Loop> outer{{n, width, Binding::serial}}, inside;
    for (const Loop& l : natural_order(t)) {
      bool tiled = l.unknown == n || tile_step(t, l.unknown) > 1 || extent(l.unknown) == 1;
      (tiled ? inside : outer).push_back(l);
    }
    outer.push_back({k, depth, Binding::serial});
    auto level = static_cast<int>(outer.size());
    // The operand along the vector is the long one: each of its tiles is used up at once.
    std::stable_partition(inside.begin(), inside.end(),
                          [&](const Loop& l) { return l.unknown == n; });
    outer.insert(outer.end(), inside.begin(), inside.end());
    PieceSchedule s = with(t, outer);
    consider(s);
    if (t.unrolled.empty()) return;
    pack_operands(t, s, level);
    PieceSchedule rows = s;
    std::erase_if(rows.packings, [&](const Packing& p) { return along(t, p, rows); });
    if (rows.packings.size() < s.packings.size() && !rows.packings.empty()) {
      consider(std::move(rows));
    }
    if (!s.packings.empty()) consider(std::move(s));
  }

  // Operands along the vector: panels of the tile's width; others: rows as the reduction reads
  // them.
  void pack_operands(const RegisterTile& t, PieceSchedule& s, int level) const {
    if (piece_.loads.size() > kMostPacked) return;
    std::vector<Loop> inside(s.outer.begin() + level, s.outer.end());
    inside.insert(inside.end(), s.tile.begin(), s.tile.end());
    for (size_t i = 0; i < piece_.loads.size(); ++i) {
      const PieceModel::AccessModel& a = model_.accesses()[i];
      bool lanes_reduce = t.vector >= 0 && !owner(t.vector);
      Packing p{static_cast<int>(i), level,
                lanes_reduce ? packed_lanes(t, s, inside, a) : packed_order(t, s, inside, a)};
      if (p.order.size() > 1 && !in_place(p, a)) s.packings.push_back(std::move(p));
    }
  }
  // Whether the copy of the whole operand would be laid out as the operand is.
  bool in_place(const Packing& p, const PieceModel::AccessModel& a) const {
    int64_t stride = 1;
    for (size_t i = p.order.size(); i-- > 0 && p.level == 0;) {
      const Loop& l = p.order[i];
      if (l.step != 1 || a.strides[static_cast<size_t>(l.unknown)] != stride) return false;
      stride *= extent(l.unknown);
    }
    return p.level == 0;
  }
  // Lanes along a reduction that memory has apart: vectors of it side by side, for each those of
  // the tile's rows. Empty: they are neighbours already.
  std::vector<Loop> packed_lanes(const RegisterTile& t, const PieceSchedule& s,
                                 const std::vector<Loop>& inside,
                                 const PieceModel::AccessModel& a) const {
    std::vector<Loop> order, rows;
    if (std::abs(a.strides[static_cast<size_t>(t.vector)]) <= 1) return order;
    for (const Loop& l : inside) {
      if (a.strides[static_cast<size_t>(l.unknown)] == 0 || !owner(l.unknown)) continue;
      bool tile = l.step > 1 && l.step == tile_step(t, l.unknown);
      if (l.step == 1) rows.push_back({l.unknown, 1, Binding::serial});
      if (tile) order.push_back({l.unknown, l.step, Binding::serial});
    }
    for (const Loop& l : s.reduce) {
      if (a.strides[static_cast<size_t>(l.unknown)] == 0) continue;
      bool wanted = l.step == (l.unknown == t.vector ? model_.lanes() : 1);
      if (wanted) order.push_back({l.unknown, l.step, Binding::serial});
    }
    order.insert(order.end(), rows.begin(), rows.end());
    order.push_back({t.vector, 1, Binding::serial});
    return order;
  }
  std::vector<Loop> packed_order(const RegisterTile& t, const PieceSchedule& s,
                                 const std::vector<Loop>& inside,
                                 const PieceModel::AccessModel& a) const {
    auto uses = [&](int u) { return a.strides[static_cast<size_t>(u)] != 0; };
    auto looped = [&](int u, int64_t step) {
      return std::any_of(inside.begin(), inside.end(), [&](const Loop& l) {
        return l.unknown == u && (step == 0 || l.step == step);
      });
    };
    std::vector<Loop> tiles, rows, last;
    for (size_t u = 0; u < piece_.owners; ++u) {
      auto unknown = static_cast<int>(u);
      if (!uses(unknown) || !looped(unknown, 0)) continue;
      // An owner that memory has contiguous stays so within its tile: copied a run at a time.
      int64_t step = tile_step(t, unknown);
      bool run = unknown == t.vector || unknown == t.joined || (a.strides[u] == 1 && step > 1);
      if (run && step > 1 && looped(unknown, step)) {
        tiles.push_back({unknown, step, Binding::serial});
      }
      (run ? last : rows).push_back({unknown, 1, Binding::serial});
    }
    if (t.joined >= 0) {  // the lanes' order
      std::stable_sort(last.begin(), last.end(), [&](const Loop& x, const Loop& y) {
        auto lane = [&](const Loop& l) {
          return l.unknown == t.vector ? 2 : l.unknown == t.joined;
        };
        return lane(x) < lane(y);
      });
    }
    std::vector<Loop> order = tiles, neighbours;
    order.insert(order.end(), rows.begin(), rows.end());
    int dot = dot_unknown();
    for (const Loop& l : s.reduce) {
      if (!uses(l.unknown)) continue;
      if (l.unknown == dot && l.binding == Binding::dot) neighbours = {{dot, 1, Binding::serial}};
      bool wanted = l.unknown == dot ? l.step == dot_->group : l.step == 1;
      if (wanted) order.push_back({l.unknown, l.step, Binding::serial});
    }
    order.insert(order.end(), last.begin(), last.end());
    order.insert(order.end(), neighbours.begin(), neighbours.end());
    return order;
  }

  // Blocks of a transposed copy: every line of both sides is used up while it is in the cache.
  void blocked_copy(const RegisterTile& t) {
    if (t.vector < 0) return;
    for (size_t u = 0; u < piece_.owners; ++u) {
      auto unknown = static_cast<int>(u);
      bool along =
          std::any_of(model_.accesses().begin(), model_.accesses().end(), [&](const auto& a) {
            return std::abs(a.strides[u]) == 1 && a.strides[static_cast<size_t>(t.vector)] > 1;
          });
      if (!along || unknown == t.vector || extent(unknown) < 16) continue;
      for (int64_t size : {int64_t{16}, int64_t{64}}) {
        int64_t step = tile_step(t, unknown);
        int64_t block = ceil_div(size, step) * step;
        std::vector<Loop> outer = natural_order(t);
        auto at = std::find_if(outer.begin(), outer.end(),
                               [&](const Loop& l) { return l.unknown == unknown; });
        Loop inner = *at;
        at->step = block;
        auto v = std::find_if(outer.begin(), outer.end(),
                              [&](const Loop& l) { return l.unknown == t.vector; });
        std::rotate(v, v + 1, outer.end());
        outer.insert(outer.end() - 1, inner);
        if (block <= step) continue;
        consider(with(t, outer));
        std::swap(outer.back(), outer[outer.size() - 2]);
        consider(with(t, outer));
        copy_through_buffer(t, unknown, block);
      }
    }
  }

  // The block of the transposed operand is read row by row into a small buffer first, so that the
  // strided reads find it close by.
  void copy_through_buffer(const RegisterTile& t, int along, int64_t block) {
    int64_t columns = ceil_div(int64_t{64}, tile_step(t, t.vector)) * tile_step(t, t.vector);
    if (columns <= tile_step(t, t.vector) || tile_step(t, along) != 1) return;
    std::vector<Loop> outer;
    for (const Loop& l : natural_order(t)) {
      if (l.unknown != along && l.unknown != t.vector) outer.push_back(l);
    }
    outer.push_back({along, block, Binding::serial});
    outer.push_back({t.vector, columns, Binding::serial});
    auto level = static_cast<int>(outer.size());
    outer.push_back({along, 1, Binding::serial});
    outer.push_back({t.vector, tile_step(t, t.vector), Binding::serial});
    PieceSchedule s = with(t, outer);
    for (size_t i = 0; i < piece_.loads.size(); ++i) {
      const PieceModel::AccessModel& a = model_.accesses()[i];
      bool strided = a.strides[static_cast<size_t>(along)] != 0 &&
                     std::abs(a.strides[static_cast<size_t>(t.vector)]) > 1;
      if (!strided) continue;
      Packing p{static_cast<int>(i), level, {}};
      p.order = {{t.vector, 1, Binding::serial}, {along, 1, Binding::serial}};
      s.packings.push_back(std::move(p));
    }
    if (!s.packings.empty()) consider(std::move(s));
  }

  // Threads where the work is worth them: leading owners until there are a few tasks for each.
  void bind_threads(PieceSchedule& s) const {
    if (target_.threads < 2 || model_.serial_ns(s) < 2 * kChunkNanoseconds) return;
    size_t most = s.outer.size();
    for (const Packing& p : s.packings) {
      if (p.level > 0) most = std::min(most, static_cast<size_t>(p.level));
    }
    int64_t tasks = 1;
    std::vector<int> seen;
    for (size_t i = 0; i < most; ++i) {
      Loop& l = s.outer[i];
      bool again = std::find(seen.begin(), seen.end(), l.unknown) != seen.end();
      if (!owner(l.unknown) || again || tasks >= kTasksPerThread * target_.threads) return;
      seen.push_back(l.unknown);
      l.binding = Binding::parallel;
      tasks *= ceil_div(extent(l.unknown), l.step);
    }
  }

  bool legal(const PieceSchedule& s) const {
    return illegal_piece(s, piece_, contraction_, kernel_, target_).empty();
  }
  void consider(PieceSchedule s) {
    bind_threads(s);
    if (legal(s)) ranked_.push_back({model_.nanoseconds(s), std::move(s)});
  }

  const Contraction& contraction_;
  const Piece& piece_;
  const Kernel& kernel_;
  const Target& target_;
  Breadth breadth_;
  PieceModel model_;
  std::optional<DotForm> dot_;  // of the schedules being built
  std::vector<RankedPiece> ranked_;
};

}  // namespace

std::vector<RankedPiece> piece_candidates(const Kernel& kernel, size_t stage, size_t piece,
                                          const Target& target, const Breadth& breadth) {
  return PieceSpace(kernel, stage, piece, target, breadth).ranked();
}

namespace {

// Whether one before, which then costs as much, is the same.
bool repeats(const std::vector<RankedPiece>& ranked, size_t at) {
  for (size_t i = at; i-- > 0 && ranked[i].nanoseconds == ranked[at].nanoseconds;) {
    if (ranked[i].schedule == ranked[at].schedule) return true;
  }
  return false;
}

// The best choice of every piece, then those that differ from it in one piece.
std::vector<Schedule> host_candidates(const Kernel& kernel, const Target& target, size_t limit,
                                      const Breadth& breadth) {
  Schedule best;
  best.stages.resize(kernel.stages.size());
  struct Option {
    double more;
    size_t stage, piece;
    PieceSchedule schedule;
  };
  std::vector<Option> options;
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    if (kernel.stages[s].attach >= 0) continue;
    for (size_t p = 0; p < kernel.stages[s].contraction.pieces.size(); ++p) {
      std::vector<RankedPiece> ranked = piece_candidates(kernel, s, p, target, breadth);
      best.stages[s].push_back(ranked[0].schedule);
      size_t kept = 1;
      for (size_t i = 1; i < ranked.size() && kept < limit; ++i) {
        if (repeats(ranked, i)) continue;
        options.push_back(
            {ranked[i].nanoseconds - ranked[0].nanoseconds, s, p, ranked[i].schedule});
        ++kept;
      }
    }
  }
  std::stable_sort(options.begin(), options.end(),
                   [](const Option& a, const Option& b) { return a.more < b.more; });
  std::vector<Schedule> all{best};
  for (Option& o : options) {
    if (all.size() >= limit) break;
    Schedule s = best;
    s.stages[o.stage][o.piece] = std::move(o.schedule);
    if (std::find(all.begin(), all.end(), s) == all.end()) all.push_back(std::move(s));
  }
  return all;
}

}  // namespace

std::vector<Schedule> candidates(const Kernel& kernel, const Target& target, size_t limit) {
  bool lines = is_gpu(target) && gpu::line_form(kernel);
  if (row_loops(kernel) > 0 && !lines) return row_candidates(kernel, target, limit);
  std::vector<Schedule> products = tensor_cores::schedules(kernel, target, limit);
  if (!products.empty()) return products;
  if (is_gpu(target)) return gpu::candidate_schedules(kernel, target, limit);
  return host_candidates(kernel, target, limit, {});
}

std::vector<Schedule> whole_space(const Kernel& kernel, const Target& target, size_t limit) {
  if (is_gpu(target) || row_loops(kernel) > 0) return candidates(kernel, target, limit);
  return host_candidates(kernel, target, limit, kWholeSpace);
}

Schedule analytic_schedule(const Kernel& kernel, const Target& target) {
  return candidates(kernel, target, 1)[0];
}

}  // namespace tile
