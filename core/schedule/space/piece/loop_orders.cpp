#include "core/schedule/space/piece/loop_orders.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace tile {

std::vector<IteratorId> LoopOrders::parallel_dims() const {
  std::vector<IteratorId> list;
  for (size_t u = 0; u < c_.piece.parallel_dims; ++u) list.push_back(IteratorId(u));
  const AccessFacts& out = c_.facts.first_store();
  std::stable_sort(list.begin(), list.end(), [&](IteratorId a, IteratorId b) {
    auto key = [&](IteratorId u) {
      return std::pair(c_.extent(u) == 1, -std::abs(out.strides[u]));
    };
    return key(a) < key(b);
  });
  return list;
}

std::vector<Loop> LoopOrders::natural(const RegisterTile& t) const {
  std::vector<Loop> outer;
  for (IteratorId u : parallel_dims()) outer.push_back({u, c_.tile_step(t, u), Binding::serial});
  return outer;
}

// A parallel dimension outside the tile that every access has, such as a group: its values are
// contractions of their own.
bool LoopOrders::shares_nothing(const RegisterTile& t, IteratorId u) const {
  if (c_.tile_step(t, u) > 1 || c_.extent(u) == 1) return false;
  return std::all_of(c_.facts.accesses.begin(), c_.facts.accesses.end(),
                     [&](const auto& a) { return a.strides[u] != 0; });
}

std::vector<std::vector<Loop>> LoopOrders::all(const RegisterTile& t) const {
  std::vector<Loop> base = natural(t);
  std::vector<std::vector<Loop>> orders{base};
  if (t.joined.valid()) orders.push_back(columns_first(t, base));
  for (size_t place : {size_t{0}, size_t{1}}) {
    std::vector<Loop> apart = base;
    auto from = std::min(apart.end(), apart.begin() + static_cast<std::ptrdiff_t>(place));
    std::stable_partition(from, apart.end(),
                          [&](const Loop& l) { return shares_nothing(t, l.iterator); });
    bool known = std::find(orders.begin(), orders.end(), apart) != orders.end();
    if (!known) orders.push_back(std::move(apart));
  }
  for (size_t i = 0; i < base.size(); ++i) {
    if (c_.tile_step(t, base[i].iterator) == 1 || c_.extent(base[i].iterator) == 1) continue;
    auto at = static_cast<std::ptrdiff_t>(i);
    std::vector<Loop> first = base, last = base;
    std::rotate(first.begin(), first.begin() + at, first.begin() + at + 1);
    std::rotate(last.begin() + at, last.begin() + at + 1, last.end());
    if (i != 0) orders.push_back(std::move(first));
    if (i + 1 != base.size()) orders.push_back(std::move(last));
  }
  return orders;
}

// Of joined lanes, which have few operands inside: columns of tiles, for each the other parallel
// dimensions.
std::vector<Loop> LoopOrders::columns_first(const RegisterTile& t,
                                            std::vector<Loop> columns) const {
  std::stable_partition(columns.begin(), columns.end(), [&](const Loop& l) {
    return l.iterator != t.joined && c_.tile_step(t, l.iterator) > 1 && l.iterator != t.vector;
  });
  auto rest = std::find_if(columns.begin(), columns.end(),
                           [&](const Loop& l) { return c_.tile_step(t, l.iterator) == 1; });
  auto at = std::find_if(columns.begin(), columns.end(),
                         [&](const Loop& l) { return l.iterator == t.joined; });
  if (rest < at) std::rotate(rest, at, at + 1);
  return columns;
}

}  // namespace tile
