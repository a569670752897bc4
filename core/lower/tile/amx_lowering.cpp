// Sums in registers that hold matrices: started, multiplied into, and stored.
#include "core/lower/tile/amx_lowering.h"

#include <algorithm>

#include "core/kernel/stream.h"

namespace tile::lowering {

namespace {

using nest::Block;
using nest::MatrixMove;
using nest::MatrixPart;

State placed(State s, IteratorId iterator, int64_t step, const Expr& value, int64_t size) {
  Position& p = s.at[iterator];
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

}  // namespace

State AmxLowering::at_cell(const State& s, int64_t row, int64_t column) const {
  State at = placed(placed(s, c_.sizes.m, 1, row, 1), c_.sizes.n, 1, column, 1);
  at.tile_index.insert(at.tile_index.end(), {Expr(row), Expr(column)});
  return at;
}

// The matrix in which the sums of one register are, by its place in the tile and its size.
nest::BufferId AmxLowering::fragment(const State& s) {
  Shape place, shape{s.at[c_.sizes.m].size.value(), s.at[c_.sizes.n].size.value()};
  for (const Expr& index : s.tile_index) place.push_back(index.value());
  auto [known, added] = fragments_.try_emplace({place, shape});
  if (added) {
    known->second =
        c_.frame.add_buffer("sums", c_.contraction.accumulator, nest::Scope::fragment, shape);
  }
  return known->second;
}

Block AmxLowering::each_tile(const State& s, const TileLeaf& leaf) {
  Block out;
  std::function<void(size_t, const State&)> from = [&](size_t i, const State& at) {
    if (i + 2 == c_.schedule.tile.size()) {
      out.push_back(leaf(fragment(at), at));
      return;
    }
    const Loop& l = c_.schedule.tile[i];
    int64_t size = at.at[l.iterator].size.value();
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
bool AmxLowering::moves_tiles(const Cell& cell, const State& s) const {
  State at = s;
  for (size_t i = 0; i + 2 < c_.schedule.tile.size(); ++i) {
    at = placed(at, c_.schedule.tile[i].iterator, c_.schedule.tile[i].step, 0, 1);
    at.tile_index.emplace_back(0);
  }
  nest::Access origin = cell(at_cell(at, 0, 0));
  std::optional<MatrixPart> part =
      part_between(origin, cell(at_cell(at, 1, 0)), cell(at_cell(at, 0, 1)));
  const nest::Buffer& b = c_.frame.nest.buffers[origin.buffer];
  return part && b.type == c_.contraction.accumulator && elements_moved(part->column, b) == 1 &&
         elements_moved(part->row, b) > 0;
}

Block AmxLowering::move_tiles(MatrixMove::Kind kind, const Cell& cell, const State& s) {
  return each_tile(s, [&](nest::BufferId fragment, const State& at) {
    MatrixMove move;
    move.kind = kind;
    move.fragment = fragment;
    nest::Access origin = cell(at_cell(at, 0, 0));
    move.buffer = origin.buffer;
    move.part = *part_between(origin, cell(at_cell(at, 1, 0)), cell(at_cell(at, 0, 1)));
    return nest::Statement{std::move(move)};
  });
}

Block AmxLowering::zero_tiles(const State& s) {
  return each_tile(s, [&](nest::BufferId fragment, const State&) {
    MatrixMove zero;
    zero.fragment = fragment;
    return nest::Statement{std::move(zero)};
  });
}

// Registers at zero, or at the sums of the blocks before.
Block AmxLowering::start_tiles(const State& s) {
  Block out = each_tile(s, [](nest::BufferId fragment, const State&) {
    return nest::Statement{nest::Alloc{fragment}};
  });
  if (!c_.blocked) {
    append(out, zero_tiles(s));
    return out;
  }
  nest::If choice;
  choice.predicate = partials_.first_block(s);
  choice.then = zero_tiles(s);
  Cell sums = [&](const State& at) { return partials_.partial(0, at); };
  if (!has_stream(c_.frame.kernel) && moves_tiles(sums, s)) {
    choice.otherwise = move_tiles(MatrixMove::Kind::load, sums, s);
  } else {
    choice.otherwise = tile_loops(c_, s, [&](const State& at) { return partials_.resumed(at); });
    append(choice.otherwise,
           move_tiles(MatrixMove::Kind::load, [&](const State& at) { return summed(at); }, s));
  }
  out.push_back(statement(std::move(choice)));
  return out;
}

// Where a load's element is; of a copy: the group of neighbours.
nest::Access AmxLowering::operand(size_t load, const State& s) const {
  if (s.packed[load].valid()) return c_.packed_access(load, s);
  const tile::Access& access = c_.piece.loads[load];
  nest::Access a;
  a.buffer = c_.frame.buffer_of.at(access.tensor);
  for (const Index& index : access.index) a.index.push_back(values_.value_of(index.affine, s));
  a.index = c_.frame.buffer_index(access.tensor, std::move(a.index));
  return a;
}

Block AmxLowering::multiply_tiles(const State& s) {
  Block out = each_tile(s, [&](nest::BufferId fragment, const State& at) {
    auto part = [&](size_t load, bool rows) {
      int64_t step = s.packed[load].valid() ? c_.sizes.group : 1;
      auto element = [&](int64_t line, int64_t term) {
        State cell = at_cell(at, rows ? line : 0, rows ? 0 : line);
        return operand(load, placed(cell, c_.sizes.k, step, term, 1));
      };
      return *part_between(element(0, 0), rows ? element(1, 0) : element(0, 1),
                           rows ? element(0, 1) : element(1, 0));
    };
    nest::MatrixTile tile;
    tile.sum = fragment;
    tile.terms = c_.sizes.terms();
    State cell = at_cell(at, 0, 0);
    tile.a = operand(c_.dot->x, placed(cell, c_.sizes.k, c_.sizes.group, 0, 1)).buffer;
    tile.b = operand(c_.dot->y, placed(cell, c_.sizes.k, c_.sizes.group, 0, 1)).buffer;
    tile.a_part = part(c_.dot->x, true);
    tile.b_part = part(c_.dot->y, false);
    tile.a_type = c_.dot->element_x;
    tile.b_type = c_.dot->element_y;
    return nest::Statement{std::move(tile)};
  });
  return values_.guarded(std::move(out), s, Tested::terms);
}

// The finished sums: stored as they are, or by way of memory, where the tile's loops read them.
Block AmxLowering::finished_tiles(const State& s) {
  TensorId output = c_.contraction.outputs[0];
  bool plain = results_.is_plain() && c_.frame.buffer_of.contains(output) &&
               c_.frame.tensor(output).type == c_.contraction.accumulator;
  Cell stored = [&](const State& at) { return values_.output_access(0, at); };
  if (plain && moves_tiles(stored, s)) return move_tiles(MatrixMove::Kind::store, stored, s);
  Block out = move_tiles(MatrixMove::Kind::store, [&](const State& at) { return summed(at); }, s);
  append(out, tile_loops(c_, s, [&](const State& at) { return results_.results(at); }));
  return out;
}

Block AmxLowering::finish_tiles(const State& s) {
  if (!c_.blocked) return finished_tiles(s);
  nest::If choice;
  choice.predicate = partials_.last_block(s);
  choice.then = finished_tiles(s);
  Cell sums = [&](const State& at) { return partials_.partial(0, at); };
  if (moves_tiles(sums, s)) {
    choice.otherwise = move_tiles(MatrixMove::Kind::store, sums, s);
  } else {
    choice.otherwise =
        move_tiles(MatrixMove::Kind::store, [&](const State& at) { return summed(at); }, s);
    append(choice.otherwise,
           tile_loops(c_, s, [&](const State& at) { return partials_.kept(at); }));
  }
  return {statement(std::move(choice))};
}

}  // namespace tile::lowering
