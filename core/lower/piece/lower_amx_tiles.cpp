// Sums in registers that hold matrices: started, multiplied into, and stored.
#include <algorithm>

#include "core/kernel/collapse.h"
#include "core/kernel/geometry.h"
#include "core/kernel/stream.h"
#include "core/lower/piece/lowering.h"

namespace tile::lowering {
namespace {

using nest::Block;
using nest::MatrixMove;
using nest::MatrixPart;

State placed(State s, int iterator, int64_t step, const Expr& value, int64_t size) {
  Position& p = s.at[static_cast<size_t>(iterator)];
  p.levels.push_back({step, value});
  p.size = size;
  p.bound = step;
  return s;
}

// The part in which one row and one column further an access moves by constants; nullopt: by
// others.
std::optional<MatrixPart> part_between(const nest::Access& origin, const nest::Access& row,
                                       const nest::Access& column) {
  MatrixPart part;
  part.origin = origin.index;
  for (size_t d = 0; d < origin.index.size(); ++d) {
    Expr down = tidy(row.index[d] - origin.index[d]),
         right = tidy(column.index[d] - origin.index[d]);
    if (!down.is_constant() || !right.is_constant()) return std::nullopt;
    part.row.push_back(down.value());
    part.column.push_back(right.value());
  }
  return part;
}

int64_t moved(const std::vector<int64_t>& steps, const nest::Buffer& b) {
  int64_t elements = 0;
  for (size_t d = 0; d < steps.size(); ++d) elements += steps[d] * b.strides[d];
  return elements;
}

}  // namespace

PieceSchedule fitted(const PieceSchedule& schedule, const Frame& frame, const Piece& piece,
                     const Contraction& c) {
  if (!uses_tiles(schedule)) return schedule;
  PieceSchedule s = schedule;
  DotForm form = *tile_form(s, piece, c, frame.kernel.tensors);
  bool packed = std::any_of(s.packings.begin(), s.packings.end(),
                            [&](const Packing& p) { return p.load == static_cast<int>(form.x); });
  const tile::Access& rows = piece.loads[form.x];
  auto buffer = frame.buffer_of.find(rows.tensor);
  if (packed || buffer == frame.buffer_of.end()) return s;
  auto k = static_cast<size_t>(s.reduce.back().iterator);
  std::vector<int64_t> steps;
  for (const Index& index : rows.index) steps.push_back(index.affine.coefficient(k).num());
  bool split = frame.split.contains(rows.tensor);
  if (!split && moved(steps, frame.nest.buffers[static_cast<size_t>(buffer->second)]) == 1)
    return s;
  Packing p{static_cast<int>(form.x), static_cast<int>(s.outer.size()), {}};
  std::vector<Loop> inside = s.reduce;
  inside.insert(inside.end(), s.tile.begin(), s.tile.end());
  std::vector<Loop> last;
  for (const Loop& l : inside) {
    bool wanted = l.step == 1 || l.binding == Binding::matrix;
    if (!wanted || !moves_with(rows, static_cast<size_t>(l.iterator))) continue;
    bool along = l.iterator == static_cast<int>(k);
    (along ? last : p.order).push_back({l.iterator, l.step, Binding::serial});
  }
  p.order.insert(p.order.end(), last.begin(), last.end());
  s.packings.push_back(std::move(p));
  return s;
}

State PieceLowering::at_cell(const State& s, int64_t row, int64_t column) const {
  State at = placed(placed(s, sizes_.m, 1, row, 1), sizes_.n, 1, column, 1);
  at.tile_index.insert(at.tile_index.end(), {Expr(row), Expr(column)});
  return at;
}

// The matrix in which the sums of one register are, by its place in the tile and its size.
int PieceLowering::fragment(const State& s) {
  Shape place, shape{s.at[static_cast<size_t>(sizes_.m)].size.value(),
                     s.at[static_cast<size_t>(sizes_.n)].size.value()};
  for (const Expr& index : s.tile_index) place.push_back(index.value());
  auto [known, added] = fragments_.try_emplace({place, shape}, -1);
  if (added) {
    known->second =
        frame_.add_buffer("sums", contraction_.accumulator, nest::Scope::fragment, shape);
  }
  return known->second;
}

Block PieceLowering::each_tile(const State& s, const TileLeaf& leaf) {
  Block out;
  std::function<void(size_t, const State&)> from = [&](size_t i, const State& at) {
    if (i + 2 == schedule_.tile.size()) {
      out.push_back(leaf(fragment(at), at));
      return;
    }
    const Loop& l = schedule_.tile[i];
    int64_t size = at.at[static_cast<size_t>(l.iterator)].size.value();
    for (int64_t first = 0; first < size; first += l.step) {
      State inner = placed(at, l.iterator, l.step, first / l.step, std::min(l.step, size - first));
      inner.tile_index.emplace_back(first / l.step);
      from(i + 1, inner);
    }
  };
  from(0, s);
  return out;
}

// Whether the cells of a row are neighbours there, as a register has them.
bool PieceLowering::moves_tiles(const Cell& cell, const State& s) const {
  State at = s;
  for (size_t i = 0; i + 2 < schedule_.tile.size(); ++i) {
    at = placed(at, schedule_.tile[i].iterator, schedule_.tile[i].step, 0, 1);
    at.tile_index.emplace_back(0);
  }
  nest::Access origin = cell(at_cell(at, 0, 0));
  std::optional<MatrixPart> part =
      part_between(origin, cell(at_cell(at, 1, 0)), cell(at_cell(at, 0, 1)));
  const nest::Buffer& b = frame_.nest.buffers[static_cast<size_t>(origin.buffer)];
  return part && b.type == contraction_.accumulator && moved(part->column, b) == 1 &&
         moved(part->row, b) > 0;
}

Block PieceLowering::move_tiles(MatrixMove::Kind kind, const Cell& cell, const State& s) {
  return each_tile(s, [&](int fragment, const State& at) {
    MatrixMove move;
    move.kind = kind;
    move.fragment = fragment;
    nest::Access origin = cell(at_cell(at, 0, 0));
    move.buffer = origin.buffer;
    move.part = *part_between(origin, cell(at_cell(at, 1, 0)), cell(at_cell(at, 0, 1)));
    return nest::Statement{std::move(move)};
  });
}

Block PieceLowering::zero_tiles(const State& s) {
  return each_tile(s, [&](int fragment, const State&) {
    MatrixMove zero;
    zero.fragment = fragment;
    return nest::Statement{std::move(zero)};
  });
}

// Registers at zero, or at the sums of the blocks before.
Block PieceLowering::start_tiles(const State& s) {
  Block out = each_tile(
      s, [](int fragment, const State&) { return nest::Statement{nest::Alloc{fragment}}; });
  if (!blocked_) {
    append(out, zero_tiles(s));
    return out;
  }
  nest::If choice;
  choice.predicate = first_block(s);
  choice.then = zero_tiles(s);
  Cell sums = [&](const State& at) { return partial(0, at); };
  if (!has_stream(frame_.kernel) && moves_tiles(sums, s)) {
    choice.otherwise = move_tiles(MatrixMove::Kind::load, sums, s);
  } else {
    choice.otherwise = tile_loops(0, s, [&](const State& at) { return resumed(at); });
    append(choice.otherwise,
           move_tiles(MatrixMove::Kind::load, [&](const State& at) { return summed(at); }, s));
  }
  out.push_back(statement(std::move(choice)));
  return out;
}

// Where a load's element is; of a copy: the group of neighbours.
nest::Access PieceLowering::operand(size_t load, const State& s) const {
  if (s.packed[load] >= 0) return packed_access(load, s);
  const tile::Access& access = piece_.loads[load];
  nest::Access a;
  a.buffer = frame_.buffer_of.at(access.tensor);
  for (const Index& index : access.index) a.index.push_back(value_of(index.affine, s));
  a.index = frame_.buffer_index(access.tensor, std::move(a.index));
  return a;
}

Block PieceLowering::multiply_tiles(const State& s) {
  Block out = each_tile(s, [&](int fragment, const State& at) {
    auto part = [&](size_t load, bool rows) {
      int64_t step = s.packed[load] >= 0 ? sizes_.group : 1;
      auto element = [&](int64_t line, int64_t term) {
        State cell = at_cell(at, rows ? line : 0, rows ? 0 : line);
        return operand(load, placed(cell, sizes_.k, step, term, 1));
      };
      return *part_between(element(0, 0), rows ? element(1, 0) : element(0, 1),
                           rows ? element(0, 1) : element(1, 0));
    };
    nest::MatrixTile tile;
    tile.sum = fragment;
    tile.terms = sizes_.terms();
    State cell = at_cell(at, 0, 0);
    tile.a = operand(dot_->x, placed(cell, sizes_.k, sizes_.group, 0, 1)).buffer;
    tile.b = operand(dot_->y, placed(cell, sizes_.k, sizes_.group, 0, 1)).buffer;
    tile.a_part = part(dot_->x, true);
    tile.b_part = part(dot_->y, false);
    tile.a_type = dot_->element_x;
    tile.b_type = dot_->element_y;
    return nest::Statement{std::move(tile)};
  });
  return guarded(std::move(out), s, false);
}

// The finished sums: stored as they are, or by way of memory, where the tile's loops read them.
Block PieceLowering::finished_tiles(const State& s) {
  TensorId output = contraction_.outputs[0];
  bool plain = attached_.empty() && register_values_.empty() && frame_.buffer_of.contains(output) &&
               frame_.tensor(output).type == contraction_.accumulator;
  Cell stored = [&](const State& at) { return output_access(0, at); };
  if (plain && moves_tiles(stored, s)) return move_tiles(MatrixMove::Kind::store, stored, s);
  Block out = move_tiles(MatrixMove::Kind::store, [&](const State& at) { return summed(at); }, s);
  append(out, tile_loops(0, s, [&](const State& at) { return results(at); }));
  return out;
}

Block PieceLowering::finish_tiles(const State& s) {
  if (!blocked_) return finished_tiles(s);
  nest::If choice;
  choice.predicate = last_block(s);
  choice.then = finished_tiles(s);
  Cell sums = [&](const State& at) { return partial(0, at); };
  if (moves_tiles(sums, s)) {
    choice.otherwise = move_tiles(MatrixMove::Kind::store, sums, s);
  } else {
    choice.otherwise =
        move_tiles(MatrixMove::Kind::store, [&](const State& at) { return summed(at); }, s);
    append(choice.otherwise, tile_loops(0, s, [&](const State& at) { return kept(at); }));
  }
  return {statement(std::move(choice))};
}

}  // namespace tile::lowering
