// The outer loops of a piece.
#include "core/lower/piece/outer_loop_lowering.h"

#include <algorithm>

#include "core/kernel/coverage.h"
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
  if (!tile_follows(i)) {
    return blocks(blocks_in(p.size, l.step),
                  [&](const Expr& v) { return inside(v, cut(l.step, p.size, v)); });
  }
  Expr full = floor_div(p.size, Expr(l.step));
  Block out = blocks(full, [&](const Expr& v) { return inside(v, l.step); });
  if (c_.sized_at_run_time(l.iterator) && l.step > 1 && !p.size.is_constant()) {
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

Block OuterLoopLowering::short_block(const Loop& l, const State& inner, const Expr& size,
                                     const Leaf& leaf) {
  IteratorId u = l.iterator;
  int64_t lanes = c_.masked_lanes(u);
  std::vector<int64_t> sizes =
      lanes > 0 ? std::vector<int64_t>{} : short_blocks(l.step, c_.piece.box[u]);
  // Vectors, of which the last has some of its lanes.
  for (int64_t vectors = lanes > 0 ? ceil_div(l.step, lanes) : 1; vectors > 1;) {
    vectors = ceil_div(vectors, 2);
    sizes.push_back(vectors * lanes);
  }
  // What is left is `most` at most, which is less than twice the next size.
  using From = std::function<Block(size_t, const Expr&, int64_t)>;
  From from = [&](size_t k, const Expr& left, int64_t most) -> Block {
    bool masked = k == sizes.size();
    if (masked && lanes == 0) return {};
    // A level of step 1: where in the block the part begins.
    State part = entered(inner, u, 1, tidy(size - left), masked ? left : Expr(sizes[k]));
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
  choice.otherwise = short_block(l, whole, size, inside);
  return {statement(std::move(choice))};
}

}  // namespace tile::lowering
