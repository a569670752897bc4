// The outer loops of a piece.
#include "core/lower/piece/outer_loop_lowering.h"

#include <algorithm>
#include <limits>

#include "core/kernel/coverage.h"
#include "core/kernel/geometry.h"
#include "core/kernel/stream.h"
#include "core/lower/launch/gpu_launch.h"
#include "core/schedule/cost/piece/piece_model.h"
#include "core/schedule/cost/piece/thread_cost.h"
#include "core/schedule/search/dynamic_extent.h"

namespace tile::lowering {

namespace {

using nest::Block;
using nest::LoopKind;

std::vector<int64_t> constants(const std::vector<Expr>& list) {
  std::vector<int64_t> values;
  for (const Expr& e : list) values.push_back(e.value());
  return values;
}

bool over(const Loop& loop, const Loop& other) { return loop.iterator == other.iterator; }

}  // namespace

bool OuterLoopLowering::tile_follows(size_t outer) const {
  const Loop& loop = c_.schedule.outer[outer];
  size_t end = outer < shared_ ? shared_ : c_.schedule.outer.size();
  bool more = std::any_of(c_.schedule.outer.begin() + static_cast<std::ptrdiff_t>(outer) + 1,
                          c_.schedule.outer.begin() + static_cast<std::ptrdiff_t>(end),
                          [&](const Loop& l) { return over(l, loop); });
  // Of a run-time size the stages inside make their own whole and short tiles.
  if (outer < shared_ && c_.sized_at_run_time(loop.iterator)) return false;
  if (outer < shared_) return !more && loop.step > 1;
  return !more && std::any_of(c_.schedule.tile.begin(), c_.schedule.tile.end(),
                              [&](const Loop& l) { return over(l, loop); });
}

int64_t OuterLoopLowering::grain_of(int64_t tasks) const {
  double all = shared_ > 0 ? shared_ns_
                           : piece_nanoseconds(c_.piece, c_.contraction, c_.frame.kernel,
                                               c_.schedule, c_.frame.target);
  return parallel_grain(all, tasks);
}

Block OuterLoopLowering::loops() {
  if (c_.parametric_tiling == 0) return parallel_loops();
  return parametric_.parametric_tiling(
      [&](const State& s) { return outer_loops(c_.parametric_tiling, s); });
}

Block OuterLoopLowering::parallel_loops() {
  State s = c_.whole_box();
  Block out;
  if (c_.parallel == 0) return outer_loops(0, s);
  for (const Packing& p : c_.schedule.packings) {
    if (p.level == 0) append(out, packing_.pack(p, s));
  }
  std::vector<Expr> counts;
  int64_t typical = 1;  // tasks
  for (size_t i = 0; i < c_.parallel; ++i) {
    const Loop& l = c_.schedule.outer[i];
    IteratorId u = l.iterator;
    counts.push_back(blocks_in(s.at[u].size, l.step));
    typical = checked_mul(typical, ceil_div(c_.piece.box[u], l.step));
  }
  if (is_gpu(c_.frame.target)) {
    const Loop& last = c_.schedule.outer[c_.parallel - 1];
    DType type = c_.frame.tensor(c_.contraction.outputs[0]).type;
    append(out, gpu::tiled_launch(
                    constants(counts), {last.step, type}, c_.frame.target,
                    [&](const std::vector<Expr>& values) { return parallel_body(0, s, values); }));
    return out;
  }
  append(out, parallel_tasks(s, counts, typical));
  return out;
}

// One loop over all tasks, of which there are `typical` in a whole box.
Block OuterLoopLowering::parallel_tasks(const State& s, const std::vector<Expr>& counts,
                                        int64_t typical) {
  // Of the loops behind each one.
  std::vector<Expr> inner(c_.parallel, 1);
  for (size_t i = c_.parallel; i-- > 1;) inner[i - 1] = inner[i] * counts[i];
  nest::For loop = make_loop("task", 0, inner[0] * counts[0], LoopKind::parallel);
  loop.grain = grain_of(typical);
  std::vector<Expr> values;
  std::function<Block(size_t)> decode = [&](size_t i) -> Block {
    if (i == c_.parallel) return parallel_body(0, s, values);
    Expr v = floor_div(Expr::variable("task"), inner[i]);
    if (i > 0) v = floor_mod(v, counts[i]);
    if (counts[i].is_constant(1)) v = 0;
    return named(c_.variable(c_.schedule.outer[i].iterator, s), v, [&](const Expr& value) {
      values.push_back(value);
      return decode(i + 1);
    });
  };
  loop.body = decode(0);
  return {statement(std::move(loop))};
}

Block OuterLoopLowering::parallel_body(size_t i, State s, const std::vector<Expr>& values) {
  if (i == c_.parallel) return outer_loops(i, std::move(s));
  const Loop& l = c_.schedule.outer[i];
  int64_t box = c_.piece.box[l.iterator];
  auto inside = [&](const Expr& size) {
    return parallel_body(i + 1, entered(s, l.iterator, l.step, values[i], size), values);
  };
  if (c_.sized_at_run_time(l.iterator)) {
    const Expr& extent = s.at[l.iterator].size;
    if (l.step == 1 || !tile_follows(i)) return inside(cut(l.step, extent, values[i]));
    auto leaf = [&](const State& part) { return parallel_body(i + 1, part, values); };
    nest::If choice;
    choice.nonnegative = {tidy(extent - Expr(l.step) * values[i] - Expr(l.step))};
    choice.then = inside(l.step);
    choice.otherwise = short_block(l, entered(s, l.iterator, l.step, values[i], l.step), 0,
                                   tidy(extent - Expr(l.step) * values[i]), leaf);
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

Block OuterLoopLowering::outer_loops(size_t i, State s) {
  if (shared_body_.inside && i == shared_) return shared_body_.inside(s);
  Block out;
  if (shared_body_.inside && i + 1 == shared_) append(out, shared_body_.before);
  for (const Packing& p : c_.schedule.packings) {
    bool here = p.level == i && (c_.parallel == 0 || i > 0);
    if (here) append(out, packing_.pack(p, s));
  }
  bool inside =
      i == c_.schedule.outer.size() || c_.schedule.outer[i].iterator == c_.schedule.carried;
  append(out, inside ? tile_.region(s) : outer_loop(i, s));
  return out;
}

Block OuterLoopLowering::outer_loop(size_t i, const State& s) {
  const Loop& l = c_.schedule.outer[i];
  if (std::optional<size_t> block = parametric_.parametric_tile_of(i)) {
    return parametric_.tiles_of_block(
        i, *block, s, [&](const State& inner) { return outer_loops(i + 1, inner); });
  }
  const Position& p = s.at[l.iterator];
  auto inside = [&](const Expr& value, const Expr& size) {
    return outer_loops(i + 1, entered(s, l.iterator, l.step, value, size));
  };
  std::string name = c_.variable(l.iterator, s);
  std::optional<VisitedBlocks> visited =
      shared_body_.inside ? visited_blocks(c_, i, s) : needed_tiles(c_, i, s);
  auto blocks = [&](const Expr& count, const std::function<Block(const Expr&)>& body) {
    if (!visited) return counted(name, count, LoopKind::serial, body);
    Expr extent = tidy(min(count, visited->end) - visited->first);
    // Behind whole tiles there may be one of another size, which is the first then.
    if (!shared_body_.inside) extent = max(Expr(0), extent);
    return looped(name, visited->first, extent, LoopKind::serial, body);
  };
  bool rows = i < shared_ && shared_body_.halves && c_.sized_at_run_time(l.iterator);
  if (rows && l.step > 1 && !visited) return open_rows(i, s);
  if (!tile_follows(i)) {
    return blocks(blocks_in(p.size, l.step),
                  [&](const Expr& v) { return inside(v, cut(l.step, p.size, v)); });
  }
  bool open = c_.sized_at_run_time(l.iterator) && l.step > 1 && !p.size.is_constant();
  if (open && !visited) return open_loop(i, s);
  Expr full = floor_div(p.size, Expr(l.step));
  Block out = blocks(full, [&](const Expr& v) { return inside(v, l.step); });
  if (open) {
    append(out, named(name, full, [&](const Expr& v) {
             return short_block(l, entered(s, l.iterator, l.step, v, l.step), 0,
                                floor_mod(p.size, Expr(l.step)),
                                [&](const State& part) { return outer_loops(i + 1, part); });
           }));
    return out;
  }
  if (p.size.is_constant()) {
    if (p.size.value() % l.step == 0) return out;
    std::vector<Expr> last;
    if (visited) last.push_back(tidy(visited->end - full - Expr(1)));
    append(out, only_if(std::move(last), inside(full, p.size.value() % l.step)));
    return out;
  }
  // Blocks begin at multiples of this step, so that only the box's end can leave a remainder.
  int64_t rest = c_.piece.box[l.iterator] % l.step;
  if (rest == 0) return out;
  nest::If last;
  last.nonnegative = {floor_mod(p.size, Expr(l.step)) - 1};
  last.then = named(name, full, [&](const Expr& v) { return inside(v, rest); });
  out.push_back(statement(std::move(last)));
  return out;
}

// Whole blocks of a run-time extent, then what is left.
Block OuterLoopLowering::open_loop(size_t i, const State& s) {
  const Loop& l = c_.schedule.outer[i];
  IteratorId u = l.iterator;
  std::string name = c_.variable(u, s);
  auto leaf = [&](const State& part) { return outer_loops(i + 1, part); };
  Expr whole_number = whole_blocks(l, s.at[u].size, halves(l));
  return named(name + "_whole", whole_number, [&](const Expr& whole) {
    Block out = counted(name, whole, LoopKind::serial,
                        [&](const Expr& v) { return leaf(entered(s, u, l.step, v, l.step)); });
    append(out, last_blocks(l, s, whole, leaf));
    return out;
  });
}

// The same of rows, in one loop: blocks of them have a run-time size anyway.
Block OuterLoopLowering::open_rows(size_t i, const State& s) {
  const Loop& l = c_.schedule.outer[i];
  IteratorId u = l.iterator;
  const Expr& size = s.at[u].size;
  std::string name = c_.variable(u, s);
  auto block = [&](const Expr& whole, const Expr& first, const Expr& second, const Expr& v) {
    return named(name + "_whole", min(v, whole), [&](const Expr& before) {
      State inner = entered(s, u, l.step, before, l.step);
      Expr last = first + (v - before) * (second - first);
      Expr cells = select(less(v, whole), Expr(l.step), last);
      return named(name + "_begin", first * (v - before), [&](const Expr& begin) {
        return named(name + "_cells", cells, [&](const Expr& number) {
          State part = entered(inner, u, 1, begin, number);
          part.at[u].bound = l.step;
          return outer_loops(i + 1, part);
        });
      });
    });
  };
  return named(name + "_all", whole_blocks(l, size, true), [&](const Expr& whole) {
    return in_halves(
        l, tidy(size - Expr(l.step) * whole), [&](const Expr& first, const Expr& second) {
          return counted(name, blocks_in(size, l.step), LoopKind::serial,
                         [&](const Expr& v) { return block(whole, first, second, v); });
        });
  });
}

int64_t OuterLoopLowering::vectors_in_block(const Loop& l) const {
  bool many = c_.piece.box[l.iterator] > kManyBlocks * l.step;
  if (!c_.reduces || many) return std::numeric_limits<int32_t>::max();
  return vectors_in_tile(c_.schedule, c_.piece, c_.contraction.accumulator, c_.frame.target);
}

// Reductions read what a block's cells share once for each block.
bool OuterLoopLowering::halves(const Loop& l) const {
  return c_.masked_lanes(l.iterator) == 0 && halves_last_blocks(l.step, vectors_in_block(l));
}

bool OuterLoopLowering::halves_rows(size_t shared) const {
  if (!c_.reduces) return true;
  const std::vector<Loop>& outer = c_.schedule.outer;
  return std::all_of(outer.begin(), outer.end(), [&](const Loop& l) {
    auto number = static_cast<size_t>(&l - outer.data());
    bool open = number < shared && c_.sized_at_run_time(l.iterator);
    auto again = [&](const Loop& other) { return over(other, l); };
    return !open || (l.binding == Binding::serial && halves(l) &&
                     std::count_if(outer.begin(), outer.end(), again) == 1);
  });
}

Expr OuterLoopLowering::whole_blocks(const Loop& l, const Expr& size, bool halved) const {
  Expr full = floor_div(size, Expr(l.step)), rest = floor_mod(size, Expr(l.step));
  if (!halved) return full;
  Expr small = less(Expr(0), rest) * less(Expr(2) * rest, Expr(l.step));
  return full - small * less(Expr(0), full);
}

Block OuterLoopLowering::in_halves(const Loop& l, const Expr& left, const Halves& parts) const {
  const std::string& name = c_.names[l.iterator];
  Expr half = floor_div(left, Expr(2)) * less(Expr(l.step), left);
  return named(name + "_second", half, [&](const Expr& second) {
    return named(name + "_first", left - second,
                 [&](const Expr& first) { return parts(first, second); });
  });
}

Block OuterLoopLowering::last_blocks(const Loop& l, const State& s, const Expr& whole,
                                     const Leaf& leaf) {
  IteratorId u = l.iterator;
  State inner = entered(s, u, l.step, whole, l.step);
  Expr left = tidy(s.at[u].size - Expr(l.step) * whole);
  if (!halves(l)) return short_block(l, inner, 0, left, leaf);
  std::string name = c_.names[u];
  auto part = [&](const Expr& number, const Expr& first, const Expr& second) {
    return named(name + "_begin", number * first, [&](const Expr& begin) {
      return named(name + "_part", first + number * (second - first),
                   [&](const Expr& size) { return short_block(l, inner, begin, size, leaf); });
    });
  };
  return in_halves(l, left, [&](const Expr& first, const Expr& second) {
    return counted(name + "_last", Expr(1) + less(Expr(0), second), LoopKind::serial,
                   [&](const Expr& number) { return part(number, first, second); });
  });
}

Block OuterLoopLowering::short_block(const Loop& l, const State& inner, const Expr& begin,
                                     const Expr& size, const Leaf& leaf) {
  IteratorId u = l.iterator;
  int64_t lanes = c_.masked_lanes(u);
  std::vector<int64_t> sizes;
  if (lanes == 0) sizes = short_blocks(l.step, vectors_in_block(l));
  // Vectors, of which the last has some of its lanes.
  for (int64_t whole = lanes > 0 ? ceil_div(l.step, lanes) : 1; whole > 1;) {
    whole = ceil_div(whole, 2);
    sizes.push_back(whole * lanes);
  }
  // What is left is `most` at most, which is less than twice the next size.
  using From = std::function<Block(size_t, const Expr&, int64_t)>;
  From from = [&](size_t k, const Expr& left, int64_t most) -> Block {
    bool masked = k == sizes.size();
    if (masked && lanes == 0) return {};
    // A level of step 1: where in the block the part begins.
    State part = entered(inner, u, 1, tidy(begin + size - left), masked ? left : Expr(sizes[k]));
    part.at[u].bound = l.step;
    nest::If some;
    some.nonnegative = {tidy(left - Expr(masked ? 1 : sizes[k]))};
    some.then = leaf(part);
    if (masked) return {statement(std::move(some))};
    // The largest part leaves nothing, so that the others need no more than its alternative.
    if (most == sizes[k]) some.otherwise = from(k + 1, left, most - 1);
    Block out{statement(std::move(some))};
    if (most == sizes[k] || (k + 1 == sizes.size() && lanes == 0)) return out;
    append(out, named(c_.names[u] + "_left" + std::to_string(k), floor_mod(left, Expr(sizes[k])),
                      [&](const Expr& less_left) { return from(k + 1, less_left, sizes[k] - 1); }));
    return out;
  };
  return named(c_.names[u] + "_left", size,
               [&](const Expr& left) { return from(0, left, l.step - 1); });
}

nest::Block OuterLoopLowering::shared_loops(size_t shared, const std::vector<std::string>& names,
                                            double nanoseconds, SharedBody body) {
  shared_ = shared;
  shared_body_ = std::move(body);
  shared_ns_ = nanoseconds;
  IdVector<RowId, IteratorId> rows = shared_iterators(c_.frame.kernel.stages[c_.stage]);
  for (size_t r = 0; r < names.size(); ++r) c_.names[rows[r]] = names[r];
  return parallel_loops();
}

nest::Block OuterLoopLowering::in_rows(const std::vector<Position>& rows, size_t shared) {
  State s = c_.whole_box();
  IdVector<RowId, IteratorId> iterators = shared_iterators(c_.frame.kernel.stages[c_.stage]);
  for (size_t r = 0; r < rows.size(); ++r) s.at[iterators[r]] = rows[r];
  return in_whole_tiles(0, shared, std::move(s));
}

// The loops behind the shared ones, for the shared loops from number `loop` on: where a tile takes
// a whole block of a run-time size, the block is done in parts of constant sizes.
nest::Block OuterLoopLowering::in_whole_tiles(size_t loop, size_t shared, State s) {
  if (loop == shared) return outer_loops(shared, std::move(s));
  const Loop& l = c_.schedule.outer[loop];
  auto over_it = [&](const Loop& other) { return over(other, l); };
  auto behind = c_.schedule.outer.begin() + static_cast<std::ptrdiff_t>(loop) + 1;
  bool last = std::none_of(behind, c_.schedule.outer.end(), over_it);
  bool tiled = std::any_of(c_.schedule.tile.begin(), c_.schedule.tile.end(), over_it);
  Expr size = s.at[l.iterator].size;
  if (!last || !tiled || size.is_constant()) return in_whole_tiles(loop + 1, shared, std::move(s));
  auto inside = [&](const State& part) { return in_whole_tiles(loop + 1, shared, part); };
  State whole = s;
  whole.at[l.iterator].size = l.step;
  nest::If choice;
  choice.nonnegative = {tidy(size - Expr(l.step))};
  choice.then = inside(whole);
  choice.otherwise = short_block(l, whole, 0, size, inside);
  return {statement(std::move(choice))};
}

}  // namespace tile::lowering
