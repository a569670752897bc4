#include "core/schedule/space/piece/inner_loops.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace tile {
namespace {

constexpr int64_t kMostTaps = 4;          // of a window that are written out for joined lanes
constexpr int64_t kMostWrittenOut = 128;  // vectors of a tile times the taps that are written out

}  // namespace

std::vector<Loop> InnerLoops::reductions(const RegisterTile& t) const {
  std::vector<IteratorId> order = reduction_order(t);
  std::vector<Loop> loops;
  IteratorId tap = c_.amx || t.joined.valid() ? IteratorId() : written_out_tap(t);
  if (t.joined.valid() || tap.valid()) {
    for (IteratorId u : order) {
      if (u != tap) loops.push_back({u, 1, Binding::serial});
    }
    if (t.joined.valid()) write_out_picks(t, loops);
    if (tap.valid()) loops.push_back({tap, 1, Binding::unroll});
    return loops;
  }
  for (IteratorId u : order) {
    if (u == c_.dot_iterator && c_.amx) {
      add_amx(loops, u);
    } else {
      add_reduction(loops, t, u, u == order.back());
    }
  }
  return loops;
}

std::vector<IteratorId> InnerLoops::reduction_order(const RegisterTile& t) const {
  std::vector<IteratorId> order;
  for (size_t u = c_.piece.parallel_dims; u < c_.piece.box.size(); ++u) {
    order.push_back(IteratorId(u));
  }
  IteratorId dot = c_.dot_iterator;
  std::stable_sort(order.begin(), order.end(), [&](IteratorId a, IteratorId b) {
    return std::pair(a == t.vector || a == dot, -c_.reach(a)) <
           std::pair(b == t.vector || b == dot, -c_.reach(b));
  });
  return order;
}

// Terms of registers that hold matrices.
void InnerLoops::add_amx(std::vector<Loop>& loops, IteratorId u) const {
  int64_t terms = c_.dot->group * c_.target.tiles.groups();
  if (c_.extent(u) > terms) loops.push_back({u, terms, Binding::serial});
  loops.push_back({u, c_.dot->group, Binding::matrix});
  loops.push_back({u, 1, Binding::dot});
}

// The last one is unrolled over the tile's independent copies.
void InnerLoops::add_reduction(std::vector<Loop>& loops, const RegisterTile& t, IteratorId u,
                               bool last) const {
  IteratorId dot = c_.dot_iterator;
  int64_t inner = u == t.vector ? c_.facts.lanes : u == dot ? c_.dot->group : 1;
  bool copied = last && t.copies > 1 && c_.extent(u) > inner;
  if (copied) {
    int64_t copies = std::min(t.copies, ceil_div(c_.extent(u), inner));
    if (copies * inner < c_.extent(u)) loops.push_back({u, copies * inner, Binding::serial});
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

// Neighbours among which joined lanes pick are read once and picked from at known places; the
// taps of a window along the tile's rows share what was picked.
void InnerLoops::write_out_picks(const RegisterTile& t, std::vector<Loop>& loops) const {
  if (c_.extent(loops.back().iterator) > kMostPicked) return;
  loops.back().binding = Binding::unroll;
  auto tap = std::find_if(loops.begin(), loops.end() - 1, [&](const Loop& l) {
    return c_.extent(l.iterator) <= kMostTaps && slides_along_rows(t, l.iterator);
  });
  if (tap == loops.end() - 1) return;
  tap->binding = Binding::unroll;
  std::rotate(tap, tap + 1, loops.end());
}

// The tap of a window that is written out so that the tile's rows share what they read, the one
// that shares most.
IteratorId InnerLoops::written_out_tap(const RegisterTile& t) const {
  if (!c_.facts.taps_only || !t.vector.valid() || !c_.is_parallel_dim(t.vector)) return {};
  IteratorId best;
  double least = 1;
  int64_t cells = t.vectors;
  for (auto [m, rows] : t.unrolled) cells *= rows;
  for (size_t r = c_.piece.parallel_dims; r < c_.piece.box.size(); ++r) {
    if (c_.piece.box[r] * cells > kMostWrittenOut) continue;
    for (size_t i = 0; i < c_.piece.loads.size(); ++i) {
      double part = 1;
      for (auto [m, rows] : t.unrolled) {
        part *= c_.facts.accesses[i].distinct_part(m.index(), rows, r, c_.piece.box[r]);
      }
      if (part < least) best = IteratorId(r);
      least = std::min(least, part);
    }
  }
  return best;
}

// Whether the reduction moves a load from row to row of the tile.
bool InnerLoops::slides_along_rows(const RegisterTile& t, IteratorId reduction) const {
  return std::any_of(t.unrolled.begin(), t.unrolled.end(), [&](const auto& rows) {
    return std::any_of(c_.facts.accesses.begin(), c_.facts.accesses.end(), [&](const auto& a) {
      int64_t step = a.strides[reduction];
      int64_t row = a.strides[rows.first];
      return step != 0 && row != 0 && step % row == 0 && std::abs(step / row) < rows.second;
    });
  });
}

PieceSchedule InnerLoops::schedule(const RegisterTile& t, std::vector<Loop> outer) const {
  PieceSchedule s;
  s.outer = std::move(outer);
  s.reduce = reductions(t);
  if (c_.amx) {
    add_amx_tile(s, t);
    return s;
  }
  for (auto [m, rows] : t.unrolled) {
    if (rows > 1) s.tile.push_back({m, m == t.joined ? t.rows : 1, Binding::unroll});
  }
  if (t.vector.valid() && c_.is_parallel_dim(t.vector)) {
    if (t.vectors > 1) s.tile.push_back({t.vector, c_.facts.lanes, Binding::unroll});
    if (t.joined.valid()) s.tile.push_back({t.joined, 1, Binding::vector});
    s.tile.push_back({t.vector, 1, Binding::vector});
  }
  return s;
}

void InnerLoops::add_amx_tile(PieceSchedule& s, const RegisterTile& t) const {
  const AmxTiles& limits = c_.target.tiles;
  auto [m, rows] = t.unrolled[0];
  if (rows > limits.rows) s.tile.push_back({m, limits.rows, Binding::unroll});
  if (t.vectors > 1) s.tile.push_back({t.vector, limits.columns(), Binding::unroll});
  s.tile.push_back({m, 1, Binding::matrix});
  s.tile.push_back({t.vector, 1, Binding::matrix});
}

}  // namespace tile
