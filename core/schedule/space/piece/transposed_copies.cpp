// Blocks of a transposed copy, through the caches or a small buffer.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/schedule/space/piece/tiling_families.h"

namespace tile {
namespace {

constexpr int64_t kBlock = 64;  // elements of a transposed block's rows and columns

class TransposedCopies : TilingFamily {
 public:
  explicit TransposedCopies(const TilingParts& parts) : TilingFamily(parts) {}
  void run(const RegisterTile& t) const;

 private:
  // Whether some access has neighbours along the parallel dimension, and vectors that memory has
  // apart.
  bool turns(const RegisterTile& t, size_t parallel_dim) const;
  void blocked(const RegisterTile& t, IteratorId along, int64_t size) const;
  void blocked_tiles(const RegisterTile& t, IteratorId along) const;
  // The block of the transposed operand is read row by row into a small buffer first, so that the
  // strided reads find it close by.
  void copy_through_buffer(const RegisterTile& t, IteratorId along, int64_t block) const;
};

void TransposedCopies::run(const RegisterTile& t) const {
  if (!t.vector.valid()) return;
  for (size_t u = 0; u < c_.piece.parallel_dims; ++u) {
    IteratorId along(u);
    if (!turns(t, u) || along == t.vector || c_.extent(along) < 16) continue;
    if (c_.tile_step(t, along) > 1) {
      blocked_tiles(t, along);
      continue;
    }
    for (int64_t size : {int64_t{16}, kBlock}) blocked(t, along, size);
  }
}

bool TransposedCopies::turns(const RegisterTile& t, size_t parallel_dim) const {
  return std::any_of(c_.facts.accesses.begin(), c_.facts.accesses.end(), [&](const auto& a) {
    return std::abs(a.strides[parallel_dim]) == 1 && a.strides[t.vector] > 1;
  });
}

void TransposedCopies::blocked(const RegisterTile& t, IteratorId along, int64_t size) const {
  int64_t step = c_.tile_step(t, along), block = ceil_div(size, step) * step;
  if (block <= step) return;
  std::vector<Loop> outer = p_.orders.natural(t);
  auto at =
      std::find_if(outer.begin(), outer.end(), [&](const Loop& l) { return l.iterator == along; });
  Loop inner = *at;
  at->step = block;
  auto vector = std::find_if(outer.begin(), outer.end(),
                             [&](const Loop& l) { return l.iterator == t.vector; });
  std::rotate(vector, vector + 1, outer.end());
  outer.insert(outer.end() - 1, inner);
  p_.found.consider(p_.inner.schedule(t, outer));
  std::swap(outer.back(), outer[outer.size() - 2]);
  p_.found.consider(p_.inner.schedule(t, outer));
  copy_through_buffer(t, along, block);
}

// The square of tiles: a tile stores rows of one vector, of which the tiles beside it have the
// rest.
void TransposedCopies::blocked_tiles(const RegisterTile& t, IteratorId along) const {
  std::vector<Loop> outer;
  for (const Loop& l : p_.orders.natural(t)) {
    if (l.iterator != along && l.iterator != t.vector) outer.push_back(l);
  }
  for (IteratorId u : {along, t.vector}) {
    outer.push_back(
        {u, ceil_div(kBlock, c_.tile_step(t, u)) * c_.tile_step(t, u), Binding::serial});
  }
  for (IteratorId u : {along, t.vector}) {
    if (outer[outer.size() - 2].step <= c_.tile_step(t, u)) return;
    outer.push_back({u, c_.tile_step(t, u), Binding::serial});
  }
  p_.found.consider(p_.inner.schedule(t, outer));
}

void TransposedCopies::copy_through_buffer(const RegisterTile& t, IteratorId along,
                                           int64_t block) const {
  int64_t columns = ceil_div(kBlock, c_.tile_step(t, t.vector)) * c_.tile_step(t, t.vector);
  if (columns <= c_.tile_step(t, t.vector) || c_.tile_step(t, along) != 1) return;
  std::vector<Loop> outer;
  for (const Loop& l : p_.orders.natural(t)) {
    if (l.iterator != along && l.iterator != t.vector) outer.push_back(l);
  }
  outer.push_back({along, block, Binding::serial});
  outer.push_back({t.vector, columns, Binding::serial});
  size_t level = outer.size();
  outer.push_back({along, 1, Binding::serial});
  outer.push_back({t.vector, c_.tile_step(t, t.vector), Binding::serial});
  PieceSchedule s = p_.inner.schedule(t, outer);
  for (size_t i = 0; i < c_.piece.loads.size(); ++i) {
    const AccessFacts& a = c_.facts.accesses[i];
    bool strided = a.strides[along] != 0 && std::abs(a.strides[t.vector]) > 1;
    if (!strided) continue;
    Packing p{i, level, {}};
    p.order = {{t.vector, 1, Binding::serial}, {along, 1, Binding::serial}};
    s.packings.push_back(std::move(p));
  }
  if (!s.packings.empty()) p_.found.consider(std::move(s));
}

}  // namespace

void consider_transposed_copies(const TilingParts& parts, const RegisterTile& t) {
  TransposedCopies(parts).run(t);
}

}  // namespace tile
