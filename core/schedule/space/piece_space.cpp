// Candidates of a piece: register tiles, the loops around them, and threads.
#include "core/schedule/space/piece_space.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/kernel/forms/long_tile.h"
#include "core/kernel/forms/window.h"
#include "core/kernel/geometry.h"
#include "core/schedule/legality/legality.h"

namespace tile {
namespace {

constexpr int64_t kTasksPerThread = 4;
constexpr int64_t kMostTasksPerThread = 16;  // of at least so many nanoseconds each
constexpr double kTaskNanoseconds = 500;
constexpr int64_t kTurnsInCache = 8;  // values of a turn along a row, of the second cache
constexpr int64_t kPageVectors = 64;  // of 64 bytes
constexpr int64_t kLeastTurn = 4096;  // cells

// Whole pages of neighbouring rows' cells, vectors of `lanes`: memory is read and written in longer
// runs than those of what registers hold.
std::vector<PieceSchedule> long_tiles(const PieceSchedule& plain, IteratorId iterator,
                                      int64_t extent, int64_t lanes) {
  std::vector<PieceSchedule> result;
  for (int64_t block : {kPageVectors * lanes, 2 * kPageVectors * lanes}) {
    if (block > extent) continue;
    PieceSchedule s = plain;
    for (Loop& l : s.outer) l.step = l.iterator == iterator ? block : l.step;
    s.tile = {{iterator, kLongTilePart * lanes, Binding::serial},
              {iterator, lanes, Binding::unroll},
              {iterator, 1, Binding::vector}};
    result.push_back(std::move(s));
  }
  return result;
}

}  // namespace

std::vector<RankedPiece> PieceSpace::ranked() {
  carried();
  tiled();
  for (int64_t group : {2, 4}) {
    dot_ = dot_form(piece_, contraction_, kernel_.tensors, group);
    if (dot_ && dot_per_ns(*dot_, target_) > 0 && dot_iterator().valid()) tiled();
  }
  dot_ = tile_factors(piece_, contraction_, kernel_.tensors);
  tiles_ = dot_ && tiles_per_ns(*dot_, target_) > 0 && dot_iterator().valid();
  if (tiles_) tiled();
  if (ranked_.empty())
    ranked_.push_back({model_.nanoseconds(plain_schedule(piece_)), plain_schedule(piece_)});
  std::stable_sort(ranked_.begin(), ranked_.end(),
                   [](const auto& a, const auto& b) { return a.nanoseconds < b.nanoseconds; });
  return std::move(ranked_);
}

void PieceSpace::tiled() {
  std::vector<RegisterTile> tiles = best_tiles();
  for (size_t i = 0; i < tiles.size(); ++i) {
    bool reduces = piece_.parallel_dims < piece_.box.size();
    for (const std::vector<Loop>& outer : orders(tiles[i])) {
      PieceSchedule s = with(tiles[i], outer);
      reduces ? consider(tiles[i], s) : consider(s);
      if (reduces && i < breadth_.blocked) panelled(tiles[i], std::move(s));
    }
    if (reduces && i < breadth_.blocked) blocked(tiles[i]);
    if (reduces && i < breadth_.blocked) short_reduction_blocks(tiles[i]);
    if (reduces && i < breadth_.blocked) kept_sums(tiles[i]);
    if (!reduces) blocked_copy(tiles[i]);
  }
}

std::vector<RegisterTile> PieceSpace::best_tiles() {
  std::vector<std::pair<double, RegisterTile>> scored;
  std::vector<RegisterTile> all =
      tiles_ ? amx_tiles() : register_tiles(piece_, contraction_, model_, target_);
  for (RegisterTile& t : all) {
    PieceSchedule s = with(t, natural_order(t));
    double ns = std::numeric_limits<double>::infinity();
    if (legal(s)) ns = model_.compute_ns(s);
    if (t.vector.valid() && piece_.parallel_dims < piece_.box.size()) {
      pack_operands(t, s, 0);
      auto with_copies = [&] {
        if (s.packings.empty() || !legal(s)) return;
        ns = std::min(ns, model_.compute_ns(s) + model_.packing_ns(s));
      };
      with_copies();
      // Of operands that scalars are read from a copy may cost more than it spares.
      if (std::erase_if(s.packings, [&](const Packing& p) { return !along(t, p, s); }) > 0) {
        with_copies();
      }
    }
    if (std::isfinite(ns)) scored.emplace_back(ns, std::move(t));
  }
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<RegisterTile> best;
  size_t joined = 0;  // leave room for others
  for (auto& [ns, tile] : scored) {
    if (best.size() == breadth_.tiles) break;
    if (tile.joined.valid() && ++joined > breadth_.tiles / 2) continue;
    best.push_back(std::move(tile));
  }
  return best;
}

// Rows along a parallel dimension of one factor, columns along one of the other, in which the
// results are contiguous if there is a choice.
std::vector<RegisterTile> PieceSpace::amx_tiles() const {
  constexpr std::pair<int64_t, int64_t> kShapes[] = {{2, 2}, {1, 4}, {4, 1}, {1, 3},
                                                     {3, 1}, {1, 2}, {2, 1}, {1, 1}};
  std::vector<RegisterTile> tiles;
  const AmxTiles& limits = target_.tiles;
  for (size_t n = 0; n < piece_.parallel_dims; ++n) {
    for (size_t m = 0; m < piece_.parallel_dims; ++m) {
      for (auto [rows, columns] : kShapes) {
        bool fewer = (rows > 1 && (rows - 1) * limits.rows >= piece_.box[m]) ||
                     (columns > 1 && (columns - 1) * limits.columns() >= piece_.box[n]);
        if (m == n || fewer) continue;
        int64_t all = rows == 1 ? std::min(limits.rows, piece_.box[m]) : rows * limits.rows;
        tiles.push_back({IteratorId(n), columns, {{IteratorId(m), all}}, 1});
      }
    }
  }
  return tiles;
}

void PieceSpace::carried() {
  std::optional<size_t> along = carried_parallel_dim(piece_, contraction_, target_);
  if (!along) return;
  bool window = window_form(piece_, contraction_).has_value();
  const PieceModel::AccessModel& out = model_.accesses()[piece_.loads.size()];
  auto plain = [&] {
    PieceSchedule s;
    s.carried = IteratorId(*along);
    for (IteratorId u : natural_parallel_dims()) {
      if (u != s.carried) s.outer.push_back({u, 1, Binding::serial});
    }
    return s;
  };
  consider(plain());
  carried_lanes(plain());
  for (size_t u = 0; u < piece_.parallel_dims; ++u) {
    if (u == *along || piece_.box[u] < 2) continue;
    IteratorId iterator(u);
    // Lanes of a window gather where they must: its loads are few beside the taps they spare.
    bool contiguous = std::abs(out.strides[u]) == 1 || window;
    int64_t lanes = model_.lanes();
    for (int64_t n : {int64_t{1}, int64_t{4}, int64_t{8}, int64_t{16}}) {
      if (n > 8 && (window || !contiguous)) continue;  // a window's ends would leave the cache
      int64_t block = contiguous ? n * lanes : n;
      if (block < 2 || (n > 1 && block >= 2 * piece_.box[u])) continue;
      PieceSchedule s = plain();
      for (Loop& l : s.outer) l.step = l.iterator == iterator ? block : l.step;
      if (contiguous && n > 1) s.tile.push_back({iterator, lanes, Binding::unroll});
      s.tile.push_back({iterator, 1, contiguous ? Binding::vector : Binding::unroll});
      consider(std::move(s));
    }
    if (!contiguous || window) continue;
    for (PieceSchedule& s : long_tiles(plain(), iterator, extent(iterator), lanes)) {
      consider(std::move(s));
    }
  }
}

// Vectors along the carried parallel dimension, where memory has its cells side by side.
void PieceSpace::carried_lanes(const PieceSchedule& plain) {
  const PieceModel::AccessModel& out = model_.accesses()[piece_.loads.size()];
  int64_t lanes = model_.lanes();
  bool neighbours = std::abs(out.strides[plain.carried]) == 1;
  std::optional<WindowForm> window = window_form(piece_, contraction_);
  if (!neighbours || lanes < 2 || (window && window->fold.valid())) return;
  for (int64_t n : {int64_t{4}, int64_t{2}, int64_t{1}}) {
    if (n > 1 && n * lanes > extent(plain.carried)) continue;
    PieceSchedule s = plain;
    s.outer.push_back({plain.carried, n * lanes, Binding::serial});
    if (n > 1) s.tile.push_back({plain.carried, lanes, Binding::unroll});
    s.tile.push_back({plain.carried, 1, Binding::vector});
    if (n > 1) chained(s);
    consider(std::move(s));
  }
}

// Threads that take turns along one long row: tiles that stay in a core's own cache, and enough of
// them that no thread waits long.
void PieceSpace::chained(PieceSchedule s) {
  int64_t block = s.outer.back().step, cells = extent(s.carried);
  int64_t near = target_.l2_bytes / kTurnsInCache / bit_width(contraction_.accumulator) * 8;
  int64_t tile = std::min(near, cells / (kTasksPerThread * target_.threads)) / block * block;
  if (target_.threads < 2 || tile < kLeastTurn) return;
  s.outer.insert(s.outer.begin(), {s.carried, tile, Binding::parallel});
  if (legal(s)) ranked_.push_back({model_.nanoseconds(s), std::move(s)});
}

void PieceSpace::bind_threads(PieceSchedule& s) const {
  // Copies are no reason for threads: what is copied for nothing would seem worth them.
  double serial = target_.threads < 2 ? 0 : model_.serial_ns(s) - model_.packing_ns(s);
  if (serial < 2 * kChunkNanoseconds) return;
  size_t most = s.outer.size();
  for (const Packing& p : s.packings) {
    if (p.level > 0) most = std::min(most, p.level);
  }
  auto trips = [&](const Loop& l) { return ceil_div(extent(l.iterator), l.step); };
  int64_t tasks = 1;
  std::vector<IteratorId> seen;
  for (; seen.size() < most; seen.push_back(s.outer[seen.size()].iterator)) {
    const Loop& l = s.outer[seen.size()];
    bool again = std::find(seen.begin(), seen.end(), l.iterator) != seen.end();
    int64_t more = tasks * trips(l);
    int64_t wanted = serial / static_cast<double>(more) < kTaskNanoseconds ? kTasksPerThread
                                                                           : kMostTasksPerThread;
    bool enough = tasks >= wanted * target_.threads;
    if (!parallel_dim(l.iterator) || l.iterator == s.carried || again || enough) break;
    tasks = more;
  }
  // Loops of one iteration make no tasks, and would hide that pieces have tasks in common.
  auto end = s.outer.begin() + static_cast<std::ptrdiff_t>(seen.size());
  end = std::stable_partition(s.outer.begin(), end, [&](const Loop& l) { return trips(l) > 1; });
  for (auto l = s.outer.begin(); l != end; ++l) l->binding = Binding::parallel;
}

bool PieceSpace::legal(const PieceSchedule& s) const {
  return illegal_piece(s, piece_, contraction_, kernel_, target_).empty();
}

void PieceSpace::consider(PieceSchedule s) {
  bind_threads(s);
  if (legal(s)) ranked_.push_back({model_.nanoseconds(s), std::move(s)});
}

void PieceSpace::consider(const RegisterTile& t, const PieceSchedule& s) {
  consider(s);
  if (std::none_of(model_.accesses().begin(), model_.accesses().end(),
                   [](const auto& a) { return a.kept; })) {
    return;
  }
  auto kept = [&](const Packing& p) { return model_.accesses()[p.load].kept; };
  PieceSchedule copies = s, packed = s;
  copies.packings.clear();
  pack_operands(t, copies, s.outer.size());
  std::erase_if(packed.packings, kept);
  bool any = false;
  for (const Packing& p : copies.packings) {
    if (!kept(p)) continue;
    std::optional<Packing> whole = packed_once(p, s, piece_, kernel_, target_);
    if (!whole || in_place(*whole, model_.accesses()[p.load])) continue;
    packed.packings.push_back(std::move(*whole));
    any = true;
  }
  if (any) consider(std::move(packed));
}

std::vector<RankedPiece> piece_candidates(const Kernel& kernel, size_t stage, size_t piece,
                                          const Target& target, const Breadth& breadth) {
  return PieceSpace(kernel, stage, piece, target, breadth).ranked();
}

}  // namespace tile
