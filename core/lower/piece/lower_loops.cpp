// The loops of a piece: outer blocks, the reduction, the register tile. Where a tile does not
// divide its block the remainder is a second version of the code inside, with constant sizes of its
// own.
#include <algorithm>
#include <bit>

#include "core/kernel/coverage.h"
#include "core/lower/launch/gpu_launch.h"
#include "core/lower/piece/lowering.h"
#include "core/schedule/cost/cost.h"

namespace tile::lowering {
namespace {

using nest::Block;
using nest::LoopKind;

State entered(const State& s, int iterator, int64_t step, const Expr& value, const Expr& size) {
  State inner = s;
  Position& p = inner.at[static_cast<size_t>(iterator)];
  p.levels.push_back({step, value});
  p.size = size;
  p.bound = step;
  return inner;
}

// A loop over [0, count); a single iteration is no loop.
Block counted(const std::string& variable, const Expr& count, LoopKind kind,
              const std::function<Block(const Expr&)>& body) {
  if (count.is_constant() && count.value() <= 0) return {};
  if (count.is_constant(1)) return body(0);
  nest::For loop = make_loop(variable, 0, count, kind);
  loop.body = body(Expr::variable(variable));
  if (loop.body.empty()) return {};
  return {statement(std::move(loop))};
}

// Names a value that is not a plain variable, so that indices stay linear in it.
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

std::vector<int64_t> constants(const std::vector<Expr>& list) {
  std::vector<int64_t> values;
  for (const Expr& e : list) values.push_back(e.value());
  return values;
}

bool over(const Loop& loop, const Loop& other) { return loop.iterator == other.iterator; }

}  // namespace

std::string PieceLowering::variable(int iterator, const State& s) const {
  auto u = static_cast<size_t>(iterator);
  return names_[u] + "_" + std::to_string(s.at[u].levels.size());
}

bool PieceLowering::tile_follows(size_t outer) const {
  const Loop& loop = schedule_.outer[outer];
  size_t end = outer < shared_ ? shared_ : schedule_.outer.size();
  bool more = std::any_of(schedule_.outer.begin() + static_cast<std::ptrdiff_t>(outer) + 1,
                          schedule_.outer.begin() + static_cast<std::ptrdiff_t>(end),
                          [&](const Loop& l) { return over(l, loop); });
  if (outer < shared_) return !more && loop.step > 1;
  return !more && std::any_of(schedule_.tile.begin(), schedule_.tile.end(),
                              [&](const Loop& l) { return over(l, loop); });
}

bool PieceLowering::unroll_follows(size_t reduce) const {
  const Loop& loop = schedule_.reduce[reduce];
  for (size_t i = reduce + 1; i < schedule_.reduce.size(); ++i) {
    Binding next = schedule_.reduce[i].binding;
    if (over(schedule_.reduce[i], loop)) return next == Binding::unroll || next == Binding::vector;
  }
  return false;
}

int64_t PieceLowering::grain_of(int64_t tasks) const {
  double all = shared_ > 0 ? shared_ns_
                           : piece_nanoseconds(piece_, contraction_, frame_.kernel, schedule_,
                                               frame_.target);
  return parallel_grain(all, tasks);
}

State PieceLowering::whole_box() const {
  State s;
  s.at.resize(piece_.box.size());
  for (size_t u = 0; u < piece_.box.size(); ++u) {
    s.at[u].size = piece_.box[u];
    if (sized_at_run_time(static_cast<int>(u))) s.at[u].size = Expr::variable(kExtentName);
    s.at[u].bound = piece_.box[u];
  }
  s.packed.assign(piece_.loads.size(), -1);
  s.outside.resize(piece_.loads.size());
  for (const auto& [load, copy] : prepared_) {
    s.packed[load] = copy->buffer;
    s.outside[load].assign(s.at.size(), 0);
  }
  return s;
}

Block PieceLowering::parallel_loops() {
  State s = whole_box();
  Block out;
  if (parallel_ == 0) return outer_loops(0, s);
  for (const Packing& p : schedule_.packings) {
    if (p.level == 0) append(out, pack(p, s));
  }
  std::vector<Expr> counts;
  int64_t typical = 1;  // tasks
  for (size_t i = 0; i < parallel_; ++i) {
    const Loop& l = schedule_.outer[i];
    auto u = static_cast<size_t>(l.iterator);
    counts.push_back(blocks_in(s.at[u].size, l.step));
    typical = checked_mul(typical, ceil_div(piece_.box[u], l.step));
  }
  if (is_gpu(frame_.target)) {
    const Loop& last = schedule_.outer[parallel_ - 1];
    DType type = frame_.tensor(contraction_.outputs[0]).type;
    append(out, gpu::tiled_launch(
                    constants(counts), {last.step, type}, frame_.target,
                    [&](const std::vector<Expr>& values) { return parallel_body(0, s, values); }));
    return out;
  }
  // Of the loops behind each one.
  std::vector<Expr> inner(parallel_, 1);
  for (size_t i = parallel_; i-- > 1;) inner[i - 1] = inner[i] * counts[i];
  nest::For loop = make_loop("task", 0, inner[0] * counts[0], LoopKind::parallel);
  loop.grain = grain_of(typical);
  std::vector<Expr> values;
  std::function<Block(size_t)> decode = [&](size_t i) -> Block {
    if (i == parallel_) return parallel_body(0, s, values);
    Expr v = floor_div(Expr::variable("task"), inner[i]);
    if (i > 0) v = floor_mod(v, counts[i]);
    if (counts[i].is_constant(1)) v = 0;
    return named(variable(schedule_.outer[i].iterator, s), v, [&](const Expr& value) {
      values.push_back(value);
      return decode(i + 1);
    });
  };
  loop.body = decode(0);
  out.push_back(statement(std::move(loop)));
  return out;
}

Block PieceLowering::parallel_body(size_t i, State s, const std::vector<Expr>& values) {
  if (i == parallel_) return outer_loops(i, std::move(s));
  const Loop& l = schedule_.outer[i];
  int64_t box = piece_.box[static_cast<size_t>(l.iterator)];
  auto inside = [&](const Expr& size) {
    return parallel_body(i + 1, entered(s, l.iterator, l.step, values[i], size), values);
  };
  if (sized_at_run_time(l.iterator)) {
    const Expr& extent = s.at[static_cast<size_t>(l.iterator)].size;
    if (l.step == 1 || !tile_follows(i)) return inside(cut(l.step, extent, values[i]));
    nest::If choice;
    choice.nonnegative = {tidy(extent - Expr(l.step) * values[i] - Expr(l.step))};
    choice.then = inside(l.step);
    choice.otherwise = short_block(l, entered(s, l.iterator, l.step, values[i], l.step),
                                   tidy(extent - Expr(l.step) * values[i]), [&](const State& part) {
                                     return parallel_body(i + 1, part, values);
                                   });
    return {statement(std::move(choice))};
  }
  int64_t full = box / l.step, rest = box % l.step;
  if (rest == 0 || !tile_follows(i)) return inside(cut(l.step, box, values[i]));
  if (full == 0) return inside(rest);
  nest::If choice;
  choice.nonnegative = {tidy(Expr(full - 1) - values[i])};
  choice.then = inside(l.step);
  choice.otherwise = inside(rest);
  return {statement(std::move(choice))};
}

Block PieceLowering::outer_loops(size_t i, State s) {
  if (shared_body_.inside && i == shared_) return shared_body_.inside(s);
  Block out;
  if (shared_body_.inside && i + 1 == shared_) append(out, shared_body_.before);
  for (const Packing& p : schedule_.packings) {
    bool here = p.level == static_cast<int>(i) && (parallel_ == 0 || i > 0);
    if (here) append(out, pack(p, s));
  }
  bool inside = i == schedule_.outer.size() || schedule_.outer[i].iterator == schedule_.carried;
  append(out, inside ? region(s) : outer_loop(i, s));
  return out;
}

Block PieceLowering::outer_loop(size_t i, const State& s) {
  const Loop& l = schedule_.outer[i];
  if (std::optional<size_t> block = parametric_tile_of(i)) return tiles_of_block(i, *block, s);
  const Position& p = s.at[static_cast<size_t>(l.iterator)];
  auto inside = [&](const Expr& value, const Expr& size) {
    return outer_loops(i + 1, entered(s, l.iterator, l.step, value, size));
  };
  std::string name = variable(l.iterator, s);
  std::optional<Expr> reached = reached_blocks(i, s);
  auto visited = [&](const Expr& count) { return reached ? min(count, *reached) : count; };
  if (!tile_follows(i)) {
    return counted(name, visited(blocks_in(p.size, l.step)), LoopKind::serial,
                   [&](const Expr& v) { return inside(v, cut(l.step, p.size, v)); });
  }
  Expr full = floor_div(p.size, Expr(l.step));
  Block out = counted(name, visited(full), LoopKind::serial,
                      [&](const Expr& v) { return inside(v, l.step); });
  if (sized_at_run_time(l.iterator) && l.step > 1 && !p.size.is_constant()) {
    append(out, named(name, full, [&](const Expr& v) {
             return short_block(l, entered(s, l.iterator, l.step, v, l.step),
                                floor_mod(p.size, Expr(l.step)),
                                [&](const State& part) { return outer_loops(i + 1, part); });
           }));
    return out;
  }
  if (p.size.is_constant()) {
    if (p.size.value() % l.step == 0) return out;
    std::vector<Expr> last;
    if (reached) last.push_back(tidy(*reached - full - Expr(1)));
    append(out, only_if(std::move(last), inside(full, p.size.value() % l.step)));
    return out;
  }
  // Blocks begin at multiples of this step, so that only the box's end can leave a remainder.
  int64_t rest = piece_.box[static_cast<size_t>(l.iterator)] % l.step;
  if (rest == 0) return out;
  nest::If last;
  last.nonnegative = {floor_mod(p.size, Expr(l.step)) - 1};
  last.then = named(name, full, [&](const Expr& v) { return inside(v, rest); });
  out.push_back(statement(std::move(last)));
  return out;
}

Block PieceLowering::short_block(const Loop& l, const State& inner, const Expr& size,
                                 const Leaf& leaf) {
  auto u = static_cast<size_t>(l.iterator);
  std::vector<int64_t> sizes = short_blocks(l.step, piece_.box[u]);
  std::function<Block(size_t, const Expr&)> from = [&](size_t k, const Expr& left) -> Block {
    if (k == sizes.size()) return {};
    // A level of step 1: where in the block the part begins.
    State part = entered(inner, l.iterator, 1, tidy(size - left), sizes[k]);
    part.at[u].bound = l.step;
    nest::If some;
    some.nonnegative = {tidy(left - Expr(sizes[k]))};
    some.then = leaf(part);
    Expr rest = select(less(left, Expr(sizes[k])), left, left - Expr(sizes[k]));
    Block out{statement(std::move(some))};
    if (k + 1 == sizes.size()) return out;
    append(out, named(names_[u] + "_left" + std::to_string(k), rest,
                      [&](const Expr& less_left) { return from(k + 1, less_left); }));
    return out;
  };
  return named(names_[u] + "_left", size, [&](const Expr& left) { return from(0, left); });
}

Block PieceLowering::reduce_loops(size_t i, const State& s) {
  bool taps = s.guards == Guards::untested && tap_test_ == std::optional<size_t>(i);
  return taps ? test_all_taps(i, s) : reduce_inside(i, s);
}

Block PieceLowering::reduce_inside(size_t i, const State& s) {
  bool test = s.guards == Guards::untested && tile_test_ == std::optional<size_t>(i);
  if (test) return test_whole_tile(i, s);
  if (tiles_ && schedule_.reduce[i].binding == Binding::matrix) return multiply_tiles(s);
  if (i == schedule_.reduce.size() || schedule_.reduce[i].binding == Binding::dot) {
    Block out = tile_loops(0, s, [&](const State& inner) { return accumulate(inner); });
    append(out, add_corrections(s));
    return out;
  }
  const Loop& l = schedule_.reduce[i];
  auto here = schedule_.reduce.begin() + static_cast<std::ptrdiff_t>(i);
  bool first = std::none_of(schedule_.reduce.begin(), here,
                            [&](const Loop& before) { return over(before, l); });
  if (first && is_bounded(l.iterator)) return bounded_loop(i, s);
  return reduce_loop(i, s);
}

// The first loop over a reduction whose range depends on the loops outside.
Block PieceLowering::bounded_loop(size_t i, State s) {
  const Loop& l = schedule_.reduce[i];
  Expr lo, size;
  bounds_of(l.iterator, s, lo, size);
  std::string name = variable(l.iterator, s);
  if (l.step == 1 && l.binding != Binding::vector) {
    nest::For loop = make_loop(name, lo, size, LoopKind::serial);
    loop.body = reduce_loops(i + 1, entered(s, l.iterator, 1, Expr::variable(name), 1));
    return {statement(std::move(loop))};
  }
  return named(name, lo, [&](const Expr& begin) {
    State inner = s;
    Position& p = inner.at[static_cast<size_t>(l.iterator)];
    p.levels.push_back({1, begin});
    return named(variable(l.iterator, inner) + "n", size, [&](const Expr& extent) {
      p.size = extent;
      return reduce_loop(i, inner);
    });
  });
}

Block PieceLowering::vector_reduction(size_t i, const State& s) {
  const Loop& l = schedule_.reduce[i];
  const Position& p = s.at[static_cast<size_t>(l.iterator)];
  if (p.size.is_constant() && p.size.value() <= 0) return {};
  std::string name = variable(l.iterator, s);
  nest::For loop = make_loop(name, 0, p.size, LoopKind::vector);
  loop.width = lane_width_;
  State inner = entered(s, l.iterator, 1, Expr::variable(name), 1);
  inner.lane = Expr::variable(name);
  loop.body = reduce_loops(i + 1, inner);
  return {statement(std::move(loop))};
}

Block PieceLowering::reduce_loop(size_t i, const State& s) {
  const Loop& l = schedule_.reduce[i];
  if (l.binding == Binding::vector) return vector_reduction(i, s);
  const Position& p = s.at[static_cast<size_t>(l.iterator)];
  bool fixed = p.size.is_constant();
  LoopKind kind = l.binding == Binding::unroll && fixed ? LoopKind::unrolled : LoopKind::serial;
  auto inside = [&](const Expr& value, const Expr& size) {
    State inner = entered(s, l.iterator, l.step, value, size);
    bool copy = copies_ > 1 && i == copy_loop_ && kind == LoopKind::unrolled;
    if (copy) inner.copy = value;
    return reduce_loops(i + 1, inner);
  };
  std::string name = variable(l.iterator, s);
  if (!unroll_follows(i)) {
    return counted(name, blocks_in(p.size, l.step), kind,
                   [&](const Expr& v) { return inside(v, cut(l.step, p.size, v)); });
  }
  Expr full = floor_div(p.size, Expr(l.step));
  Block out = counted(name, full, kind, [&](const Expr& v) { return inside(v, l.step); });
  Expr rest = floor_mod(p.size, Expr(l.step));
  if (rest.is_constant(0)) return out;
  append(out, named(name, full, [&](const Expr& v) { return inside(v, rest); }));
  return out;
}

Block PieceLowering::tile_loops(size_t i, const State& s, const Leaf& leaf) {
  if (i == schedule_.tile.size()) return leaf(s);
  const Loop& l = schedule_.tile[i];
  if (s.one_cell && l.iterator == schedule_.carried) return tile_loops(i + 1, s, leaf);
  const Position& p = s.at[static_cast<size_t>(l.iterator)];
  internal_check(p.size.is_constant(), "lower: a register tile of unknown size");
  auto inside = [&](const Expr& value, const Expr& size) {
    State inner = entered(s, l.iterator, l.step, value, size);
    inner.tile_index.push_back(value);
    if (l.iterator == schedule_.carried) ++inner.carried_index;
    return tile_loops(i + 1, inner, leaf);
  };
  std::string name = variable(l.iterator, s);
  if (l.binding == Binding::vector && i + 1 < schedule_.tile.size())
    return joined_lanes(i, s, leaf);
  bool last = i + 1 == schedule_.tile.size();
  if (l.binding == Binding::matrix && !last) {
    return counted(name, p.size, LoopKind::serial, [&](const Expr& v) { return inside(v, 1); });
  }
  if (l.binding == Binding::vector || l.binding == Binding::matrix) {
    nest::For loop = make_loop(name, 0, p.size, LoopKind::vector);
    loop.width = tile_shape_[i];
    loop.ordered = l.iterator == schedule_.carried;
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

// One vector loop over the pairs of the last two iterators.
Block PieceLowering::joined_lanes(size_t i, const State& s, const Leaf& leaf) {
  int first = schedule_.tile[i].iterator, last = schedule_.tile[i + 1].iterator;
  const Expr& rows = s.at[static_cast<size_t>(first)].size;
  const Expr& row = s.at[static_cast<size_t>(last)].size;
  internal_check(rows.is_constant() && row.is_constant(), "lower: joined lanes of unknown size");
  std::string name = variable(last, s);
  nest::For loop = make_loop(name, 0, rows.value() * row.value(), LoopKind::vector);
  loop.width = tile_shape_[i + 1];
  Expr lane = Expr::variable(name);
  State inner = entered(s, first, 1, floor_div(lane, row), 1);
  inner = entered(inner, last, 1, floor_mod(lane, row), 1);
  inner.tile_index.insert(inner.tile_index.end(), {Expr(0), lane});
  loop.body = leaf(inner);
  return {statement(std::move(loop))};
}

bool PieceLowering::is_bounded(int iterator) const {
  return std::any_of(constraints_.begin(), constraints_.end(), [&](const PlacedConstraint& p) {
    return p.place == Place::bound && p.iterator == iterator;
  });
}

void PieceLowering::bounds_of(int iterator, const State& s, Expr& lo, Expr& size) const {
  auto u = static_cast<size_t>(iterator);
  lo = 0;
  Expr end = s.at[u].size, base = s.at[u].begin();
  for (const PlacedConstraint& p : constraints_) {
    if (p.place != Place::bound || p.iterator != iterator) continue;
    Constraint k = integral(*p.constraint);
    int64_t a = k.form.coefficient(u).num();
    k.form.coefficients[u] = 0;
    Expr rest = tidy(value_of(k.form, s) + Expr(a) * base);
    Expr low = tidy(Expr(k.lo) - rest), high = tidy(Expr(k.hi - 1) - rest);
    if (a < 0) {
      std::swap(low, high);
      low = tidy(-low);
      high = tidy(-high);
      a = -a;
    }
    lo = max(lo, floor_div(tidy(low + Expr(a - 1)), Expr(a)));
    end = min(end, tidy(floor_div(high, Expr(a)) + 1));
  }
  size = max(Expr(0), tidy(end - lo));
}

}  // namespace tile::lowering
