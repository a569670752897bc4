#include "core/schedule/facts/tile_shape.h"

#include <algorithm>

#include "core/kernel/forms/dot_products.h"
#include "core/kernel/geometry.h"

namespace tile {

TileShape::TileShape(const PieceFacts& facts, const PieceSchedule& s) {
  for (const Loop& l : s.tile) {
    if (l.binding == Binding::vector) vector = l.iterator;
    size_t u = l.iterator.index();
    if (std::find(iterators.begin(), iterators.end(), u) == iterators.end()) iterators.push_back(u);
  }
  if (!s.reduce.empty() && s.reduce.back().binding == Binding::vector) {
    vector = s.reduce.back().iterator;
  }
  if (joins_lanes(s)) joined = s.tile[s.tile.size() - 2].iterator;
  if (s.tile.size() > 1 && s.tile.back().binding == Binding::vector && !joined.valid()) {
    turned = s.tile[s.tile.size() - 2].iterator;
  }
  size_t loop = 0;
  copies = accumulator_copies(s, facts.piece, facts.contraction, facts.target, loop);
  group = dot_group(s);
  for (const Loop& l : s.reduce) {
    if (l.binding == Binding::unroll) unroll = 2;
  }
  take_blocks(facts, s);
}

void TileShape::take_blocks(const PieceFacts& facts, const PieceSchedule& s) {
  for (size_t u : iterators) {
    int64_t block = facts.piece.box[u];
    for (const Loop& l : s.outer) {
      if (l.iterator == IteratorId(u)) block = std::min(block, l.step);
    }
    blocks.push_back(block);
    if (IteratorId(u) == joined) rows = block;
  }
  for (const Loop& l : s.tile) {
    bool vectors = l.iterator == joined && l.binding == Binding::unroll;
    if (vectors) rows = std::min(rows, l.step);
  }
}

double TileShape::vectors_of(const PieceFacts& facts, size_t iterator, int64_t size) const {
  if (IteratorId(iterator) == joined) size *= facts.extent(vector);
  return static_cast<double>(has_lanes_of(iterator) ? ceil_div(size, facts.lanes) : size);
}

int64_t TileShape::transposed_rows(const AccessFacts& a) const {
  for (size_t j = 0; j < iterators.size() && turned.valid(); ++j) {
    bool unrolled = IteratorId(iterators[j]) == turned;
    if (unrolled && a.turns(vector, iterators[j])) return blocks[j];
  }
  return 1;
}

}  // namespace tile
