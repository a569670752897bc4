// Orders of the loops around and within a register tile.
#include <algorithm>
#include <cmath>

#include "core/schedule/space/piece_space.h"

namespace tile {
namespace {

constexpr int64_t kMostTaps = 4;          // of a window that are written out for joined lanes
constexpr int64_t kMostWrittenOut = 128;  // vectors of a tile times the taps that are written out

}  // namespace

IteratorId PieceSpace::dot_iterator() const {
  IteratorId best;
  for (size_t u = piece_.parallel_dims; u < piece_.box.size() && dot_; ++u) {
    bool longer = piece_.box[u] > 1 && packs_along(*dot_, piece_, IteratorId(u));
    IteratorId iterator(u);
    if (longer && (!best.valid() || reach(iterator) <= reach(best))) best = iterator;
  }
  return best;
}

int64_t PieceSpace::reach(IteratorId u) const {
  int64_t most = 0;
  for (const PieceModel::AccessModel& a : model_.accesses()) {
    most = std::max(most, std::abs(a.strides[u]));
  }
  return most;
}

int64_t PieceSpace::tile_step(const RegisterTile& t, IteratorId u) const {
  if (u == t.vector && parallel_dim(u)) {
    return t.vectors * (tiles_ ? target_.tiles.columns() : model_.lanes());
  }
  int64_t values = u == t.joined ? t.rows : 1;
  for (auto [m, rows] : t.unrolled) {
    if (m == u) return values * rows;
  }
  return values;
}

std::vector<IteratorId> PieceSpace::natural_parallel_dims() const {
  std::vector<IteratorId> list;
  for (size_t u = 0; u < piece_.parallel_dims; ++u) list.push_back(IteratorId(u));
  const PieceModel::AccessModel& out = model_.accesses()[piece_.loads.size()];
  std::stable_sort(list.begin(), list.end(), [&](IteratorId a, IteratorId b) {
    auto key = [&](IteratorId u) { return std::pair(extent(u) == 1, -std::abs(out.strides[u])); };
    return key(a) < key(b);
  });
  return list;
}

std::vector<Loop> PieceSpace::natural_order(const RegisterTile& t) const {
  std::vector<Loop> outer;
  for (IteratorId u : natural_parallel_dims())
    outer.push_back({u, tile_step(t, u), Binding::serial});
  return outer;
}

bool PieceSpace::shares_nothing(const RegisterTile& t, IteratorId u) const {
  if (tile_step(t, u) > 1 || extent(u) == 1) return false;
  return std::all_of(model_.accesses().begin(), model_.accesses().end(),
                     [&](const auto& a) { return a.strides[u] != 0; });
}

std::vector<std::vector<Loop>> PieceSpace::orders(const RegisterTile& t) const {
  std::vector<Loop> base = natural_order(t);
  std::vector<std::vector<Loop>> all{base};
  if (t.joined.valid()) {  // few operands: columns of tiles, for each the other parallel dimensions
    std::vector<Loop> columns = base;
    std::stable_partition(columns.begin(), columns.end(), [&](const Loop& l) {
      return l.iterator != t.joined && tile_step(t, l.iterator) > 1 && l.iterator != t.vector;
    });
    auto rest = std::find_if(columns.begin(), columns.end(),
                             [&](const Loop& l) { return tile_step(t, l.iterator) == 1; });
    auto at = std::find_if(columns.begin(), columns.end(),
                           [&](const Loop& l) { return l.iterator == t.joined; });
    if (rest < at) std::rotate(rest, at, at + 1);
    all.push_back(std::move(columns));
  }
  for (size_t place : {size_t{0}, size_t{1}}) {
    std::vector<Loop> apart = base;
    auto from = std::min(apart.end(), apart.begin() + static_cast<std::ptrdiff_t>(place));
    std::stable_partition(from, apart.end(),
                          [&](const Loop& l) { return shares_nothing(t, l.iterator); });
    if (std::find(all.begin(), all.end(), apart) == all.end()) all.push_back(std::move(apart));
  }
  for (size_t i = 0; i < base.size(); ++i) {
    if (tile_step(t, base[i].iterator) == 1 || extent(base[i].iterator) == 1) continue;
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

std::vector<Loop> PieceSpace::reduce_loops(const RegisterTile& t) const {
  std::vector<IteratorId> list;
  for (size_t u = piece_.parallel_dims; u < piece_.box.size(); ++u) list.push_back(IteratorId(u));
  IteratorId dot = dot_iterator();
  std::stable_sort(list.begin(), list.end(), [&](IteratorId a, IteratorId b) {
    return std::pair(a == t.vector || a == dot, -reach(a)) <
           std::pair(b == t.vector || b == dot, -reach(b));
  });
  std::vector<Loop> loops;
  if (t.joined.valid()) {
    for (IteratorId u : list) loops.push_back({u, 1, Binding::serial});
    write_out_picks(t, loops);
    return loops;
  }
  IteratorId tap = tiles_ ? IteratorId() : written_out_tap(t);
  if (tap.valid()) {
    list.erase(std::find(list.begin(), list.end(), tap));
    for (IteratorId u : list) loops.push_back({u, 1, Binding::serial});
    loops.push_back({tap, 1, Binding::unroll});
    return loops;
  }
  for (IteratorId u : list) {
    bool last = u == list.back();
    if (u == dot && tiles_) {
      int64_t terms = dot_->group * target_.tiles.groups();
      if (extent(u) > terms) loops.push_back({u, terms, Binding::serial});
      loops.push_back({u, dot_->group, Binding::matrix});
      loops.push_back({u, 1, Binding::dot});
      continue;
    }
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

void PieceSpace::write_out_picks(const RegisterTile& t, std::vector<Loop>& loops) const {
  if (extent(loops.back().iterator) > kMostPicked) return;
  loops.back().binding = Binding::unroll;
  auto tap = std::find_if(loops.begin(), loops.end() - 1, [&](const Loop& l) {
    return extent(l.iterator) <= kMostTaps && slides_along_rows(t, l.iterator);
  });
  if (tap == loops.end() - 1) return;
  tap->binding = Binding::unroll;
  std::rotate(tap, tap + 1, loops.end());
}

IteratorId PieceSpace::written_out_tap(const RegisterTile& t) const {
  if (!model_.taps_only() || !t.vector.valid() || !parallel_dim(t.vector)) return {};
  IteratorId best;
  double least = 1;
  int64_t cells = t.vectors;
  for (auto [m, rows] : t.unrolled) cells *= rows;
  for (size_t r = piece_.parallel_dims; r < piece_.box.size(); ++r) {
    if (piece_.box[r] * cells > kMostWrittenOut) continue;
    for (size_t i = 0; i < piece_.loads.size(); ++i) {
      double part = 1;
      for (auto [m, rows] : t.unrolled) {
        part *= PieceModel::distinct_part(model_.accesses()[i], m.index(), rows, r, piece_.box[r]);
      }
      if (part < least) best = IteratorId(r);
      least = std::min(least, part);
    }
  }
  return best;
}

bool PieceSpace::slides_along_rows(const RegisterTile& t, IteratorId reduction) const {
  return std::any_of(t.unrolled.begin(), t.unrolled.end(), [&](const auto& rows) {
    return std::any_of(model_.accesses().begin(), model_.accesses().end(), [&](const auto& a) {
      int64_t step = a.strides[reduction];
      int64_t row = a.strides[rows.first];
      return step != 0 && row != 0 && step % row == 0 && std::abs(step / row) < rows.second;
    });
  });
}

PieceSchedule PieceSpace::with(const RegisterTile& t, std::vector<Loop> outer) const {
  PieceSchedule s;
  s.outer = std::move(outer);
  s.reduce = reduce_loops(t);
  if (tiles_) {
    auto [m, rows] = t.unrolled[0];
    if (rows > target_.tiles.rows) s.tile.push_back({m, target_.tiles.rows, Binding::unroll});
    if (t.vectors > 1) s.tile.push_back({t.vector, target_.tiles.columns(), Binding::unroll});
    s.tile.push_back({m, 1, Binding::matrix});
    s.tile.push_back({t.vector, 1, Binding::matrix});
    return s;
  }
  for (auto [m, rows] : t.unrolled) {
    if (rows > 1) s.tile.push_back({m, m == t.joined ? t.rows : 1, Binding::unroll});
  }
  if (t.vector.valid() && parallel_dim(t.vector)) {
    if (t.vectors > 1) s.tile.push_back({t.vector, model_.lanes(), Binding::unroll});
    if (t.joined.valid()) s.tile.push_back({t.joined, 1, Binding::vector});
    s.tile.push_back({t.vector, 1, Binding::vector});
  }
  return s;
}

}  // namespace tile
