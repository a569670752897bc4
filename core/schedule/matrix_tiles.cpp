#include "core/schedule/matrix_tiles.h"

#include <algorithm>

#include "core/schedule/collapse.h"
#include "core/schedule/cost.h"
#include "core/schedule/lowering.h"

namespace tile {
namespace {

bool is_byte(DType t) { return t == DType::i8 || t == DType::u8; }

bool any_matrix(const std::vector<Loop>& loops) {
  return std::any_of(loops.begin(), loops.end(),
                     [](const Loop& l) { return l.binding == Binding::matrix; });
}

// Of the unknown the values in one iteration of the loop before loop i of `loops`.
int64_t block_before(const PieceSchedule& s, const std::vector<Loop>& loops, size_t i,
                     const Piece& piece) {
  int unknown = loops[i].unknown;
  int64_t block = piece.box[static_cast<size_t>(unknown)];
  auto take = [&](const Loop& l) {
    if (l.unknown == unknown) block = std::min(block, l.step);
  };
  std::for_each(s.outer.begin(), s.outer.end(), take);
  std::for_each(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(i), take);
  return block;
}

// Neither the rows nor the columns are named by a condition: a register has no lanes to leave out.
bool conditioned(const Piece& piece, int unknown) {
  return std::any_of(piece.constraints.begin(), piece.constraints.end(), [&](const Constraint& c) {
    return !c.form.coefficient(static_cast<size_t>(unknown)).is_zero();
  });
}

bool is_packed(const PieceSchedule& s, size_t load) {
  return std::any_of(s.packings.begin(), s.packings.end(),
                     [&](const Packing& p) { return p.load == static_cast<int>(load); });
}

// The loop that the copy has contiguous, beside a group's neighbours.
const Loop* contiguous(const PieceSchedule& s, size_t load) {
  for (const Packing& p : s.packings) {
    size_t n = packed_loops(p, s);
    if (p.load == static_cast<int>(load) && n > 0) return &p.order[n - 1];
  }
  return nullptr;
}

// Whether memory has the terms of a row of the load side by side.
bool in_memory(const Access& access, size_t k, const std::vector<BoundTensor>& tensors) {
  const Shape& shape = tensors[static_cast<size_t>(access.tensor)].shape;
  int64_t stride = 1, moved = 0;
  for (size_t d = shape.size(); d-- > 0;) {
    const Index& index = access.index[d];
    if (index.value >= 0 || index.boundary != Boundary::in_range) return false;
    if (!index.affine.is_integral()) return false;
    moved += index.affine.coefficient(k).num() * stride;
    stride *= shape[d];
  }
  return moved == 1;
}

}  // namespace

bool uses_tiles(const PieceSchedule& s) {
  size_t tile = s.tile.size(), reduce = s.reduce.size();
  return tile >= 2 && reduce >= 2 && s.tile[tile - 1].binding == Binding::matrix &&
         s.tile[tile - 2].binding == Binding::matrix &&
         s.reduce[reduce - 2].binding == Binding::matrix &&
         s.reduce[reduce - 1].binding == Binding::dot;
}

std::optional<DotForm> tile_factors(const Piece& piece, const Contraction& c,
                                    const std::vector<BoundTensor>& tensors) {
  std::optional<std::pair<size_t, size_t>> loads = product_of_loads(piece, c);
  if (!loads) return std::nullopt;
  auto type = [&](size_t load) {
    return tensors[static_cast<size_t>(piece.loads[load].tensor)].type;
  };
  DType a = type(loads->first), b = type(loads->second);
  if (a == DType::bf16 && b == DType::bf16 && c.accumulator == DType::f32) {
    return DotForm{Op::dot2_bf16, Op::pack2, 2, loads->first, loads->second, a, b, std::nullopt};
  }
  if (!is_byte(a) || !is_byte(b) || c.accumulator != DType::i32) return std::nullopt;
  return DotForm{Op::dot4_u8i8, Op::pack4, 4, loads->first, loads->second, a, b, std::nullopt};
}

std::optional<DotForm> tile_form(const PieceSchedule& s, const Piece& piece, const Contraction& c,
                                 const std::vector<BoundTensor>& tensors) {
  std::optional<DotForm> form = tile_factors(piece, c, tensors);
  if (!form) return std::nullopt;
  auto m = static_cast<size_t>(s.tile[s.tile.size() - 2].unknown);
  auto n = static_cast<size_t>(s.tile.back().unknown);
  auto moves = [&](size_t load, size_t u) { return moves_with(piece.loads[load], u); };
  if (moves(form->y, m)) {
    std::swap(form->x, form->y);
    std::swap(form->element_x, form->element_y);
  }
  bool apart = moves(form->x, m) && !moves(form->x, n) && moves(form->y, n) && !moves(form->y, m);
  return apart ? form : std::nullopt;
}

std::optional<DotForm> form_of(const PieceSchedule& s, const Piece& piece, const Contraction& c,
                               const std::vector<BoundTensor>& tensors) {
  if (uses_tiles(s)) return tile_form(s, piece, c, tensors);
  return dot_form(piece, c, tensors, dot_group(s));
}

double tiles_per_ns(const DotForm& form, const Target& target) {
  if (target.tiles.count == 0) return 0;
  return form.group == 2 ? target.tiles.bf16_per_ns : target.tiles.i8_per_ns;
}

TileSizes tile_sizes(const PieceSchedule& s, const Piece& piece) {
  TileSizes t;
  t.m = s.tile[s.tile.size() - 2].unknown;
  t.n = s.tile.back().unknown;
  t.k = s.reduce.back().unknown;
  t.rows = block_before(s, s.tile, s.tile.size() - 2, piece);
  t.columns = block_before(s, s.tile, s.tile.size() - 1, piece);
  t.group = dot_group(s);
  t.groups = ceil_div(block_before(s, s.reduce, s.reduce.size() - 2, piece), t.group);
  auto tiles = [&](int unknown, int64_t size) {
    int64_t block = piece.box[static_cast<size_t>(unknown)];
    for (const Loop& l : s.outer) {
      if (l.unknown == unknown) block = std::min(block, l.step);
    }
    return ceil_div(block, std::max<int64_t>(size, 1));
  };
  t.row_tiles = tiles(t.m, t.rows);
  t.column_tiles = tiles(t.n, t.columns);
  return t;
}

namespace {

std::string broken_loops(const PieceSchedule& s, const Piece& piece) {
  auto count = [](const std::vector<Loop>& loops) {
    return std::count_if(loops.begin(), loops.end(),
                         [](const Loop& l) { return l.binding == Binding::matrix; });
  };
  bool placed = uses_tiles(s) && count(s.tile) == 2 && count(s.reduce) == 1 && !any_matrix(s.outer);
  if (!placed || s.carried >= 0) return "matrix loops elsewhere than last";
  const Loop &m = s.tile[s.tile.size() - 2], &n = s.tile.back();
  const Loop& groups = s.reduce[s.reduce.size() - 2];
  bool whole = m.step == 1 && n.step == 1 && groups.unknown == s.reduce.back().unknown;
  if (!whole) return "a tile of more than its neighbours";
  for (const Loop& l : s.tile) {
    if (l.unknown != m.unknown && l.unknown != n.unknown) return "tiles along another owner";
  }
  bool empty =
      std::any_of(piece.box.begin(), piece.box.end(), [](int64_t extent) { return extent < 1; });
  if (empty) return "tiles without points";
  bool conditions = conditioned(piece, m.unknown) || conditioned(piece, n.unknown);
  return conditions ? "tiles with conditions on their rows or columns" : "";
}

std::string broken_sizes(const TileSizes& t, const MatrixTiles& limits) {
  if (t.rows > limits.rows || t.columns > limits.columns() || t.groups > limits.groups()) {
    return "a tile larger than its register";
  }
  // Operands of each size that the tiles have, whole ones and remainders.
  int64_t sizes = std::min<int64_t>(t.row_tiles, 2) + std::min<int64_t>(t.column_tiles, 2);
  bool fit = t.row_tiles * t.column_tiles + sizes <= limits.count;
  return fit ? "" : "more tiles than registers";
}

// Columns are copied; rows lie side by side in a copy or in memory, there without zeros behind the
// last.
std::string broken_operands(const PieceSchedule& s, const Piece& piece, const DotForm& form,
                            const TileSizes& t, const std::vector<BoundTensor>& tensors) {
  const Loop* last = contiguous(s, form.y);
  if (last == nullptr || last->unknown != t.n) return "columns that are not copied";
  if (is_packed(s, form.x)) {
    last = contiguous(s, form.x);
    return last != nullptr && last->unknown == t.k ? "" : "rows that are copied otherwise";
  }
  auto k = static_cast<size_t>(t.k);
  bool whole = piece.box[k] % t.terms() == 0;
  for (const Loop& l : s.outer) {
    whole = whole && (l.unknown != t.k || piece.box[k] % l.step == 0);
  }
  bool full = whole && in_memory(piece.loads[form.x], k, tensors);
  return full ? "" : "rows that memory does not have";
}

}  // namespace

std::string illegal_tiles(const PieceSchedule& s, const Piece& piece, const Contraction& c,
                          const std::vector<BoundTensor>& tensors, const Target& target) {
  if (!any_matrix(s.outer) && !any_matrix(s.reduce) && !any_matrix(s.tile)) return {};
  if (std::string text = broken_loops(s, piece); !text.empty()) return text;
  std::optional<DotForm> form = tile_form(s, piece, c, tensors);
  if (!form || is_gpu(target) || tiles_per_ns(*form, target) <= 0) return "tiles of other terms";
  if (s.reduce[s.reduce.size() - 2].step != form->group) return "a tile of other neighbours";
  if (c.fill && !lowering::surely_nonempty(piece)) return "tiles of sums that may be empty";
  TileSizes t = tile_sizes(s, piece);
  if (std::string text = broken_sizes(t, target.tiles); !text.empty()) return text;
  return broken_operands(s, piece, *form, t, tensors);
}

}  // namespace tile
