// Schedules that carry sums from cell to cell.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "core/kernel/forms/long_tile.h"
#include "core/kernel/forms/window.h"
#include "core/kernel/geometry.h"
#include "core/schedule/space/piece/tiling_families.h"

namespace tile {
namespace {

constexpr int64_t kTurnsPerThread = 4;  // along one row, at least
constexpr int64_t kTurnsInCache = 8;    // values of a turn along a row, of the second cache
constexpr int64_t kPageVectors = 64;    // of 64 bytes
constexpr int64_t kLeastTurn = 4096;    // cells

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

class CarriedLoops : TilingFamily {
 public:
  CarriedLoops(const TilingParts& parts, size_t along) : TilingFamily(parts), carried_(along) {}
  void run() const;

 private:
  PieceSchedule plain() const;
  // Cells of several rows, vectors of them where memory has them side by side.
  void rows_of(IteratorId iterator) const;
  void lanes_along(const PieceSchedule& plain) const;
  void chained(PieceSchedule s) const;

  const IteratorId carried_;
};

void CarriedLoops::run() const {
  p_.found.consider(plain());
  lanes_along(plain());
  for (size_t u = 0; u < c_.piece.parallel_dims; ++u) {
    IteratorId iterator(u);
    if (iterator == carried_ || c_.piece.box[u] < 2) continue;
    rows_of(iterator);
  }
}

PieceSchedule CarriedLoops::plain() const {
  PieceSchedule s;
  s.carried = carried_;
  for (IteratorId u : p_.orders.parallel_dims()) {
    if (u != s.carried) s.outer.push_back({u, 1, Binding::serial});
  }
  return s;
}

void CarriedLoops::rows_of(IteratorId iterator) const {
  // Lanes of a window gather where they must: its loads are few beside the taps they spare.
  int64_t stride = c_.facts.first_store().strides[iterator];
  bool window = c_.facts.is_window, contiguous = std::abs(stride) == 1 || window;
  int64_t lanes = c_.facts.lanes, extent = c_.extent(iterator);
  for (int64_t n : {int64_t{1}, int64_t{4}, int64_t{8}, int64_t{16}}) {
    if (n > 8 && (window || !contiguous)) continue;  // a window's ends would leave the cache
    int64_t block = contiguous ? n * lanes : n;
    if (block < 2 || (n > 1 && block >= 2 * extent)) continue;
    PieceSchedule s = plain();
    for (Loop& l : s.outer) l.step = l.iterator == iterator ? block : l.step;
    if (contiguous && n > 1) s.tile.push_back({iterator, lanes, Binding::unroll});
    s.tile.push_back({iterator, 1, contiguous ? Binding::vector : Binding::unroll});
    p_.found.consider(std::move(s));
  }
  if (!contiguous || window) return;
  for (PieceSchedule& s : long_tiles(plain(), iterator, extent, lanes)) {
    p_.found.consider(std::move(s));
  }
}

// Vectors along the carried parallel dimension, where memory has its cells side by side.
void CarriedLoops::lanes_along(const PieceSchedule& plain) const {
  const AccessFacts& out = c_.facts.first_store();
  int64_t lanes = c_.facts.lanes;
  bool neighbours = std::abs(out.strides[plain.carried]) == 1;
  std::optional<WindowForm> window = window_form(c_.piece, c_.facts.contraction);
  if (!neighbours || lanes < 2 || (window && window->fold.valid())) return;
  for (int64_t n : {int64_t{4}, int64_t{2}, int64_t{1}}) {
    if (n > 1 && n * lanes > c_.extent(plain.carried)) continue;
    PieceSchedule s = plain;
    s.outer.push_back({plain.carried, n * lanes, Binding::serial});
    if (n > 1) s.tile.push_back({plain.carried, lanes, Binding::unroll});
    s.tile.push_back({plain.carried, 1, Binding::vector});
    if (n > 1) chained(s);
    p_.found.consider(std::move(s));
  }
}

// Threads that take turns along one long row: tiles that stay in a core's own cache, and enough of
// them that no thread waits long.
void CarriedLoops::chained(PieceSchedule s) const {
  int64_t block = s.outer.back().step, cells = c_.extent(s.carried);
  int64_t near =
      c_.target.l2_bytes / kTurnsInCache / bit_width(c_.facts.contraction.accumulator) * 8;
  int64_t tile = std::min(near, cells / (kTurnsPerThread * c_.target.threads)) / block * block;
  if (c_.target.threads < 2 || tile < kLeastTurn) return;
  s.outer.insert(s.outer.begin(), {s.carried, tile, Binding::parallel});
  p_.found.add(std::move(s));
}

}  // namespace

void consider_carried_loops(const TilingParts& parts) {
  const PieceFacts& f = parts.context.facts;
  std::optional<size_t> along = carried_parallel_dim(f.piece, f.contraction, f.target);
  if (along) CarriedLoops(parts, *along).run();
}

}  // namespace tile
