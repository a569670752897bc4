// Which schedules end in registers that hold matrices.
#include <algorithm>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/coverage.h"
#include "core/kernel/forms/amx_tiles.h"
#include "core/kernel/geometry.h"
#include "core/schedule/legality/legality.h"

namespace tile {
namespace {

bool any_matrix(const std::vector<Loop>& loops) {
  return std::any_of(loops.begin(), loops.end(),
                     [](const Loop& l) { return l.binding == Binding::matrix; });
}

bool is_packed(const PieceSchedule& s, size_t load) {
  return std::any_of(s.packings.begin(), s.packings.end(),
                     [&](const Packing& p) { return p.load == load; });
}

// The loop that the copy has contiguous, beside a group's neighbours.
const Loop* contiguous(const PieceSchedule& s, size_t load) {
  for (const Packing& p : s.packings) {
    size_t n = packed_loops(p, s);
    if (p.load == load && n > 0) return &p.order[n - 1];
  }
  return nullptr;
}

// Whether memory has the terms of a row of the load side by side.
bool in_memory(const Access& access, IteratorId k, const BoundTensors& tensors) {
  const Shape& shape = tensors[access.tensor].shape;
  int64_t stride = 1, moved = 0;
  for (size_t d = shape.size(); d-- > 0;) {
    const Index& index = access.index[d];
    if (!is_plain_index(index)) return false;
    if (!index.affine.is_integral()) return false;
    moved += index.affine.coefficient(k).num() * stride;
    stride *= shape[d];
  }
  return moved == 1;
}

std::string broken_loops(const PieceSchedule& s, const Piece& piece) {
  auto count = [](const std::vector<Loop>& loops) {
    return std::count_if(loops.begin(), loops.end(),
                         [](const Loop& l) { return l.binding == Binding::matrix; });
  };
  bool placed = uses_tiles(s) && count(s.tile) == 2 && count(s.reduce) == 1 && !any_matrix(s.outer);
  if (!placed || s.carried.valid()) return "matrix loops elsewhere than last";
  const Loop &m = s.tile[s.tile.size() - 2], &n = s.tile.back();
  const Loop& groups = s.reduce[s.reduce.size() - 2];
  bool whole = m.step == 1 && n.step == 1 && groups.iterator == s.reduce.back().iterator;
  if (!whole) return "a tile of more than its neighbours";
  for (const Loop& l : s.tile) {
    if (l.iterator != m.iterator && l.iterator != n.iterator)
      return "tiles along another parallel dimension";
  }
  bool empty =
      std::any_of(piece.box.begin(), piece.box.end(), [](int64_t extent) { return extent < 1; });
  if (empty) return "tiles without points";
  // A register has no lanes to leave out.
  bool conditions = is_constrained(piece, m.iterator) || is_constrained(piece, n.iterator);
  return conditions ? "tiles with conditions on their rows or columns" : "";
}

std::string broken_sizes(const TileSizes& t, const AmxTiles& limits) {
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
                            const TileSizes& t, const BoundTensors& tensors) {
  const Loop* last = contiguous(s, form.y);
  if (last == nullptr || last->iterator != t.n) return "columns that are not copied";
  if (is_packed(s, form.x)) {
    last = contiguous(s, form.x);
    return last != nullptr && last->iterator == t.k ? "" : "rows that are copied otherwise";
  }
  bool whole = piece.box[t.k] % t.terms() == 0;
  for (const Loop& l : s.outer) {
    whole = whole && (l.iterator != t.k || piece.box[t.k] % l.step == 0);
  }
  bool full = whole && in_memory(piece.loads[form.x], t.k, tensors);
  return full ? "" : "rows that memory does not have";
}

}  // namespace

std::string illegal_tiles(const PieceSchedule& s, const Piece& piece, const Contraction& c,
                          const BoundTensors& tensors, const Target& target) {
  if (!any_matrix(s.outer) && !any_matrix(s.reduce) && !any_matrix(s.tile)) return {};
  if (std::string text = broken_loops(s, piece); !text.empty()) return text;
  std::optional<DotForm> form = tile_form(s, piece, c, tensors);
  if (!form || is_gpu(target) || tiles_per_ns(*form, target) <= 0) return "tiles of other terms";
  if (s.reduce[s.reduce.size() - 2].step != form->group) return "a tile of other neighbours";
  if (c.fill && !surely_nonempty(piece)) return "tiles of sums that may be empty";
  TileSizes t = tile_sizes(s, piece);
  if (std::string text = broken_sizes(t, target.tiles); !text.empty()) return text;
  return broken_operands(s, piece, *form, t, tensors);
}

}  // namespace tile
