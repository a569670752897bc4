// The loops over a tile's reductions.
#include "core/lower/piece/reduction_lowering.h"

#include <algorithm>

#include "core/kernel/coverage.h"

namespace tile::lowering {

namespace {

using nest::Block;
using nest::LoopKind;

bool over(const Loop& loop, const Loop& other) { return loop.iterator == other.iterator; }

}  // namespace

bool ReductionLowering::unroll_follows(size_t reduce) const {
  const Loop& loop = c_.schedule.reduce[reduce];
  for (size_t i = reduce + 1; i < c_.schedule.reduce.size(); ++i) {
    Binding next = c_.schedule.reduce[i].binding;
    if (over(c_.schedule.reduce[i], loop))
      return next == Binding::unroll || next == Binding::vector;
  }
  return false;
}

Block ReductionLowering::reduce_loops(size_t i, const State& s) {
  bool taps = s.guards == Guards::untested && borders_.tap_test() == i;
  return taps ? test_all_taps(i, s) : reduce_inside(i, s);
}

Block ReductionLowering::reduce_inside(size_t i, const State& s) {
  bool test = s.guards == Guards::untested && borders_.tile_test() == i;
  if (test) return test_whole_tile(i, s);
  if (c_.tiles && c_.schedule.reduce[i].binding == Binding::matrix) return amx_.multiply_tiles(s);
  if (i == c_.schedule.reduce.size() || c_.schedule.reduce[i].binding == Binding::dot) {
    Block out = tile_loops(c_, s, [&](const State& inner) { return terms_.accumulate(inner); });
    append(out, dots_.add_corrections(s));
    return out;
  }
  const Loop& l = c_.schedule.reduce[i];
  auto here = c_.schedule.reduce.begin() + static_cast<std::ptrdiff_t>(i);
  bool first = std::none_of(c_.schedule.reduce.begin(), here,
                            [&](const Loop& before) { return over(before, l); });
  if (first && c_.is_bounded(l.iterator)) return bounded_loop(i, s);
  return reduce_loop(i, s);
}

// The first loop over a reduction whose range depends on the loops outside.
Block ReductionLowering::bounded_loop(size_t i, State s) {
  const Loop& l = c_.schedule.reduce[i];
  Expr lo, size;
  bounds_of(l.iterator, s, lo, size);
  std::string name = c_.variable(l.iterator, s);
  if (l.step == 1 && l.binding != Binding::vector) {
    nest::For loop = make_loop(name, lo, size, LoopKind::serial);
    loop.body = reduce_loops(i + 1, entered(s, l.iterator, 1, Expr::variable(name), 1));
    return {statement(std::move(loop))};
  }
  return named(name, lo, [&](const Expr& begin) {
    State inner = s;
    Position& p = inner.at[l.iterator];
    p.levels.push_back({1, begin});
    return named(c_.variable(l.iterator, inner) + "n", size, [&](const Expr& extent) {
      p.size = extent;
      return reduce_loop(i, inner);
    });
  });
}

Block ReductionLowering::vector_reduction(size_t i, const State& s) {
  const Loop& l = c_.schedule.reduce[i];
  const Position& p = s.at[l.iterator];
  if (p.size.is_constant() && p.size.value() <= 0) return {};
  std::string name = c_.variable(l.iterator, s);
  nest::For loop = make_loop(name, 0, p.size, LoopKind::vector);
  loop.width = c_.lane_width;
  State inner = entered(s, l.iterator, 1, Expr::variable(name), 1);
  inner.lane = Expr::variable(name);
  loop.body = reduce_loops(i + 1, inner);
  return {statement(std::move(loop))};
}

Block ReductionLowering::reduce_loop(size_t i, const State& s) {
  const Loop& l = c_.schedule.reduce[i];
  if (l.binding == Binding::vector) return vector_reduction(i, s);
  const Position& p = s.at[l.iterator];
  // On a GPU the few threads at a border have less code instead.
  bool border = is_gpu(c_.frame.target) && s.guards == Guards::points;
  bool written_out = l.binding == Binding::unroll && p.size.is_constant() && !border;
  LoopKind kind = written_out ? LoopKind::unrolled : LoopKind::serial;
  auto inside = [&](const State& at, const Expr& value, const Expr& size) {
    State inner = entered(at, l.iterator, l.step, value, size);
    bool copy = c_.copies > 1 && i == c_.copy_loop && kind == LoopKind::unrolled;
    if (copy) inner.copy = value;
    return reduce_loops(i + 1, inner);
  };
  std::string name = c_.variable(l.iterator, s);
  bool follows = unroll_follows(i);
  Expr count = follows ? floor_div(p.size, Expr(l.step)) : blocks_in(p.size, l.step);
  auto trip = [&](const State& at, const Expr& v) {
    return inside(at, v, follows ? Expr(l.step) : cut(l.step, p.size, v));
  };
  std::optional<Trips> some;
  if (kind == LoopKind::serial && s.guards == Guards::untested) some = trips_.trips(i, s, count);
  Block out = some ? trips_of(name, *some, s, trip)
                   : counted(name, count, kind, [&](const Expr& v) { return trip(s, v); });
  Expr rest = floor_mod(p.size, Expr(l.step));
  if (!follows || rest.is_constant(0)) return out;
  append(out, named(name, count, [&](const Expr& v) { return inside(s, v, rest); }));
  return out;
}

// The trips that have points of the tile: those in the middle have all, and others test each.
Block ReductionLowering::trips_of(
    const std::string& name, const Trips& trips, const State& s,
    const std::function<Block(const State&, const Expr&)>& inside) const {
  Block out;
  auto some = [&](const Expr& begin, const Expr& end, Guards guards) {
    State at = s;
    at.guards = guards;
    nest::For loop =
        make_loop(name, tidy(begin), max(Expr(0), tidy(end - begin)), LoopKind::serial);
    loop.body = inside(at, Expr::variable(name));
    if (!loop.body.empty()) out.push_back(statement(std::move(loop)));
  };
  if (!trips.has_whole) {
    some(trips.begin, trips.end, Guards::untested);
    return out;
  }
  if (!trips.starts_whole) some(trips.begin, trips.whole_begin, Guards::points);
  some(trips.whole_begin, trips.whole_end, Guards::none);
  if (!trips.ends_whole) some(trips.whole_end, trips.end, Guards::points);
  return out;
}

void ReductionLowering::bounds_of(IteratorId u, const State& s, Expr& lo, Expr& size) const {
  lo = 0;
  Expr end = s.at[u].size, base = s.at[u].begin();
  for (const PlacedConstraint& p : c_.constraints) {
    if (p.place != Place::bound || p.iterator != u) continue;
    Condition k = c_.frame.open.condition(*p.constraint, c_.piece);
    int64_t a = k.form.coefficient(u).num();
    k.form.coefficients[u.index()] = 0;
    Expr rest = tidy(values_.value_of(k.form, s) + Expr(a) * base);
    Expr low = tidy(k.lo - rest), high = tidy(k.hi - Expr(1) - rest);
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

// Where all reductions of the tile's conditions are known, one test of the whole tile spares the
// loops inside the tests of its points. A window at a border of its tensor leaves out some rows at
// one end of the tile, for which a tile without them is as fast as a whole one.
Block ReductionLowering::test_whole_tile(size_t i, const State& s) {
  auto inside = [&](Guards guards, const TileRows& rows) {
    State inner = s;
    inner.guards = guards;
    inner.rows = rows;
    return reduce_loops(i, inner);
  };
  std::vector<Expr> whole_tile = borders_.tile_conditions(s, {});
  if (whole_tile.empty()) return inside(Guards::none, {});
  Block otherwise = inside(Guards::points, {});
  // Loops inside, which points would be tested in again and again.
  bool again = i < c_.schedule.reduce.size() && !is_gpu(c_.frame.target);
  std::vector<TileRows> rows{TileRows{}};
  if (again) rows = borders_.shortened(s);
  for (size_t r = rows.size(); r-- > 0;) {
    nest::If choice;
    choice.nonnegative = borders_.tile_conditions(s, rows[r]);
    choice.then = inside(Guards::none, rows[r]);
    choice.otherwise = std::move(otherwise);
    otherwise = {statement(std::move(choice))};
  }
  return otherwise;
}

// One test for all taps that are written out: inside the domain they then stand side by side
// without tests between them, and share what their windows overlap in.
Block ReductionLowering::test_all_taps(size_t i, const State& s) {
  nest::If choice;
  choice.nonnegative = borders_.tile_conditions(s, {});
  bool never = std::any_of(choice.nonnegative.begin(), choice.nonnegative.end(),
                           [](const Expr& e) { return e.is_constant() && e.value() < 0; });
  if (never || choice.nonnegative.empty()) return reduce_inside(i, s);
  State inner = s;
  inner.guards = Guards::none;
  choice.then = reduce_inside(i, inner);
  State border = s;
  if (is_gpu(c_.frame.target)) border.guards = Guards::points;
  choice.otherwise = reduce_inside(i, border);
  return {statement(std::move(choice))};
}

}  // namespace tile::lowering
