// Loops of the register tile.
#include "core/lower/context/tile_loops.h"

#include "core/ir/analysis/accesses.h"
#include "core/lower/launch/nest_builders.h"

namespace tile::lowering {

using nest::Block;
using nest::LoopKind;

State entered(const State& s, IteratorId iterator, int64_t step, const Expr& value,
              const Expr& size) {
  State inner = s;
  Position& p = inner.at[iterator];
  p.levels.push_back({step, value});
  p.size = size;
  p.bound = step;
  return inner;
}

Block counted(const std::string& variable, const Expr& count, LoopKind kind,
              const std::function<Block(const Expr&)>& body) {
  if (count.is_constant() && count.value() <= 0) return {};
  if (count.is_constant(1)) return body(0);
  nest::For loop = make_loop(variable, 0, count, kind);
  loop.body = body(Expr::variable(variable));
  if (loop.body.empty()) return {};
  return {statement(std::move(loop))};
}

Block named(const std::string& variable, const Expr& value,
            const std::function<Block(const Expr&)>& body) {
  if (linear_form(value)) return body(tidy(value));
  nest::For loop = make_loop(variable, value, 1, LoopKind::serial);
  loop.body = body(Expr::variable(variable));
  return {statement(std::move(loop))};
}

Expr cut(int64_t step, const Expr& size, const Expr& value) {
  if (step == 1) return 1;
  if (size.is_constant() && size.value() % step == 0) return step;
  return min(Expr(step), tidy(size - Expr(step) * value));
}

Expr blocks_in(const Expr& size, int64_t step) {
  return step == 1 ? size : floor_div(tidy(size + Expr(step - 1)), Expr(step));
}

namespace {

// One vector loop over the pairs of the last two iterators.
Block joined_lanes(const PieceContext& c, size_t i, const State& s, const Leaf& leaf) {
  IteratorId first = c.schedule.tile[i].iterator, last = c.schedule.tile[i + 1].iterator;
  const Expr& rows = s.at[first].size;
  const Expr& row = s.at[last].size;
  internal_check(rows.is_constant() && row.is_constant(), "lower: joined lanes of unknown size");
  std::string name = c.variable(last, s);
  nest::For loop = make_loop(name, 0, rows.value() * row.value(), LoopKind::vector);
  loop.width = c.tile_shape[i + 1];
  Expr lane = Expr::variable(name);
  State inner = entered(s, first, 1, floor_div(lane, row), 1);
  inner = entered(inner, last, 1, floor_mod(lane, row), 1);
  inner.tile_index.insert(inner.tile_index.end(), {Expr(0), lane});
  loop.body = leaf(inner);
  return {statement(std::move(loop))};
}

// The loops of the tile from number i on.
Block tile_loops_from(const PieceContext& c, size_t i, const State& s, const Leaf& leaf) {
  if (i == c.schedule.tile.size()) return leaf(s);
  const Loop& l = c.schedule.tile[i];
  if (s.one_cell && l.iterator == c.schedule.carried) return tile_loops_from(c, i + 1, s, leaf);
  const Position& p = s.at[l.iterator];
  bool some_lanes = !p.size.is_constant();
  internal_check(!some_lanes || c.masked_lanes(l.iterator) > 0,
                 "lower: a register tile of unknown size");
  auto inside = [&](const Expr& value, const Expr& size) {
    State inner = entered(s, l.iterator, l.step, value, size);
    inner.tile_index.push_back(value);
    if (l.iterator == c.schedule.carried) ++inner.carried_index;
    return tile_loops_from(c, i + 1, inner, leaf);
  };
  std::string name = c.variable(l.iterator, s);
  bool last = i + 1 == c.schedule.tile.size();
  if (l.binding == Binding::vector && !last) return joined_lanes(c, i, s, leaf);
  if (some_lanes && !last) return inside(0, p.size);
  if (l.binding == Binding::matrix && !last) {
    return counted(name, p.size, LoopKind::serial, [&](const Expr& v) { return inside(v, 1); });
  }
  if (l.binding == Binding::vector || l.binding == Binding::matrix) {
    nest::For loop = make_loop(name, 0, p.size, LoopKind::vector);
    loop.width = c.tile_shape[i];
    loop.ordered = l.iterator == c.schedule.carried;
    loop.body = inside(Expr::variable(name), 1);
    return {statement(std::move(loop))};
  }
  if (l.iterator == s.rows.iterator && l.step == 1) {
    if (s.rows.count == 1) return inside(s.rows.first, 1);
    nest::For loop = make_loop(name, s.rows.first, s.rows.count, LoopKind::unrolled);
    loop.body = inside(Expr::variable(name), 1);
    return {statement(std::move(loop))};
  }
  int64_t full = p.size.value() / l.step, rest = p.size.value() % l.step;
  LoopKind kind = l.binding == Binding::serial ? LoopKind::serial : LoopKind::unrolled;
  Block out = counted(name, full, kind, [&](const Expr& v) { return inside(v, l.step); });
  if (rest != 0) append(out, inside(full, rest));
  return out;
}

}  // namespace

Block tile_loops(const PieceContext& c, const State& s, const Leaf& leaf) {
  return tile_loops_from(c, 0, s, leaf);
}

Block tile_loops_of(const PieceContext& c, size_t load, const State& s, const Leaf& leaf) {
  std::function<Block(size_t, const State&)> from = [&](size_t i, const State& at) -> Block {
    if (i == c.schedule.tile.size()) return leaf(at);
    const Loop& l = c.schedule.tile[i];
    IteratorId u = l.iterator;
    auto next = [&](const Expr& value, const Expr& size) {
      State inner = at;
      inner.at[u].levels.push_back({l.step, value});
      inner.at[u].size = size;
      inner.at[u].bound = l.step;
      inner.tile_index.push_back(value);
      return from(i + 1, inner);
    };
    if (!moves_with(c.piece.loads[load], u)) return next(0, 1);
    const Expr& number = at.at[u].size;
    bool lanes = l.binding == Binding::vector;
    if (!number.is_constant() && !lanes) return next(0, number);
    int64_t size = number.is_constant() ? number.value() : c.masked_lanes(u);
    int64_t full = size / l.step, rest = size % l.step;
    std::string name = c.variable(l.iterator, at);
    nest::For loop = make_loop(name, 0, lanes ? number : Expr(full),
                               lanes ? nest::LoopKind::vector : nest::LoopKind::unrolled);
    if (lanes) loop.width = c.tile_shape[i];
    Block out;
    if (full == 1 && !lanes) {
      out = next(0, l.step);
    } else if (full > 0) {
      loop.body = next(Expr::variable(name), Expr(lanes ? 1 : l.step));
      out.push_back(statement(std::move(loop)));
    }
    if (!lanes && rest != 0) append(out, next(full, rest));
    return out;
  };
  return from(0, s);
}

Block in_vectors(const PieceContext& c, const std::string& name, int64_t count, const State& s,
                 const Leaf& leaf) {
  IteratorId parallel_dim = c.schedule.carried;
  int64_t block = c.schedule.outer.back().step, full = count / block;
  auto some = [&](const Expr& number, int64_t size) {
    State at = s;
    at.at[parallel_dim].levels.push_back({block, number});
    at.at[parallel_dim].size = size;
    return tile_loops(c, at, leaf);
  };
  Block out;
  if (full > 0) {
    nest::For loop = make_loop(name, 0, full, nest::LoopKind::serial);
    loop.body = some(Expr::variable(name), block);
    out.push_back(statement(std::move(loop)));
  }
  if (count % block != 0) append(out, some(full, count % block));
  return out;
}

}  // namespace tile::lowering
