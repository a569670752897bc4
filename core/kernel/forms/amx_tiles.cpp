#include "core/kernel/forms/amx_tiles.h"

#include <algorithm>

#include "core/ir/analysis/accesses.h"
#include "core/ir/analysis/matrix_types.h"
#include "core/kernel/geometry.h"

namespace tile {
namespace {

// Of the iterator the values in one iteration of the loop before loop i of `loops`.
int64_t block_before(const PieceSchedule& s, const std::vector<Loop>& loops, size_t i,
                     const Piece& piece) {
  IteratorId iterator = loops[i].iterator;
  int64_t block = piece.box[iterator];
  auto take = [&](const Loop& l) {
    if (l.iterator == iterator) block = std::min(block, l.step);
  };
  std::for_each(s.outer.begin(), s.outer.end(), take);
  std::for_each(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(i), take);
  return block;
}

}  // namespace

std::optional<DotForm> tile_factors(const Piece& piece, const Contraction& c,
                                    const BoundTensors& tensors) {
  std::optional<std::pair<size_t, size_t>> loads = product_of_loads(piece, c);
  if (!loads) return std::nullopt;
  auto type = [&](size_t load) { return tensors[piece.loads[load].tensor].type; };
  DType a = type(loads->first), b = type(loads->second);
  if (a == DType::bf16 && b == DType::bf16 && c.accumulator == DType::f32) {
    return DotForm{Op::dot2_bf16, Op::pack2, 2, loads->first, loads->second, a, b, std::nullopt};
  }
  if (!is_byte(a) || !is_byte(b) || c.accumulator != DType::i32) return std::nullopt;
  return DotForm{Op::dot4_u8i8, Op::pack4, 4, loads->first, loads->second, a, b, std::nullopt};
}

std::optional<DotForm> tile_form(const PieceSchedule& s, const Piece& piece, const Contraction& c,
                                 const BoundTensors& tensors) {
  std::optional<DotForm> form = tile_factors(piece, c, tensors);
  if (!form) return std::nullopt;
  IteratorId m = s.tile[s.tile.size() - 2].iterator;
  IteratorId n = s.tile.back().iterator;
  auto moves = [&](size_t load, IteratorId u) { return moves_with(piece.loads[load], u); };
  if (moves(form->y, m)) {
    std::swap(form->x, form->y);
    std::swap(form->element_x, form->element_y);
  }
  bool apart = moves(form->x, m) && !moves(form->x, n) && moves(form->y, n) && !moves(form->y, m);
  return apart ? form : std::nullopt;
}

std::optional<DotForm> form_of(const PieceSchedule& s, const Piece& piece, const Contraction& c,
                               const BoundTensors& tensors) {
  if (uses_tiles(s)) return tile_form(s, piece, c, tensors);
  return dot_form(piece, c, tensors, dot_group(s));
}

double tiles_per_ns(const DotForm& form, const Target& target) {
  if (target.tiles.count == 0) return 0;
  return form.group == 2 ? target.tiles.bf16_per_ns : target.tiles.i8_per_ns;
}

TileSizes tile_sizes(const PieceSchedule& s, const Piece& piece) {
  TileSizes t;
  t.m = s.tile[s.tile.size() - 2].iterator;
  t.n = s.tile.back().iterator;
  t.k = s.reduce.back().iterator;
  t.rows = block_before(s, s.tile, s.tile.size() - 2, piece);
  t.columns = block_before(s, s.tile, s.tile.size() - 1, piece);
  t.group = dot_group(s);
  t.groups = ceil_div(block_before(s, s.reduce, s.reduce.size() - 2, piece), t.group);
  auto tiles = [&](IteratorId iterator, int64_t size) {
    int64_t block = piece.box[iterator];
    for (const Loop& l : s.outer) {
      if (l.iterator == iterator) block = std::min(block, l.step);
    }
    return ceil_div(block, std::max<int64_t>(size, 1));
  };
  t.row_tiles = tiles(t.m, t.rows);
  t.column_tiles = tiles(t.n, t.columns);
  return t;
}

}  // namespace tile
