// Packing of the block of a load.
#include "core/lower/piece/packing_lowering.h"

#include <algorithm>
#include <cstdlib>

#include "core/ir/analysis/accesses.h"
#include "core/schedule/cost/piece/thread_cost.h"
#include "core/schedule/facts/piece_facts.h"

namespace tile::lowering {
namespace {

// The state in one iteration of an entry's loop.
State moved_to(const Loop& l, const State& s, const Expr& value, const Expr& size) {
  State inner = s;
  Position& at = inner.at[l.iterator];
  at.levels.push_back({l.step, value});
  at.size = size;
  return inner;
}

}  // namespace

IterationBox PackingLowering::bounds(const State& s) const {
  IterationBox range;
  for (const Position& p : s.at) range.push_back(p.bound);
  return range;
}

nest::Block PackingLowering::prepare_copy(const Packing& whole) {
  copied_by_threads_ = c_.parallel > 0;
  return packing_loops(whole, 0, c_.whole_box());
}

nest::Block PackingLowering::pack(const Packing& packing, State& s) {
  size_t load = packing.load;
  if (c_.is_prepared(load)) return {};
  DType type = packed_type(packing);
  auto [known, added] = packing_buffers_.try_emplace(load);
  if (added) {
    nest::Scope scope =
        packing.level == 0 && c_.parallel > 0 ? nest::Scope::workspace : nest::Scope::scratch;
    known->second = c_.frame.add_buffer("packed", type, scope,
                                        packed_shape(packing, c_.schedule, c_.piece, bounds(s)));
  }
  s.packed[load] = known->second;
  s.outside[load].clear();
  for (const Position& p : s.at) s.outside[load].push_back(p.levels.size());
  copied_by_threads_ = copied_by_threads();
  nest::Block out{{nest::Alloc{known->second}}};
  append(out, packing_loops(packing, 0, s));
  return out;
}

// Small copies are made by the calling thread: others would take longer to come.
bool PackingLowering::copied_by_threads() const {
  bool known = !c_.frame.open.any() && !is_gpu(c_.frame.target);
  if (c_.parallel == 0 || !known) return c_.parallel > 0;
  PieceFacts facts(c_.piece, c_.contraction, c_.frame.kernel, c_.frame.target);
  return threads_make_copies(facts, c_.schedule);
}

// Indices in range wherever a valid point reads; other elements of the block are never used.
std::vector<Expr> PackingLowering::in_range(size_t load, const State& s) const {
  const tile::Access& access = c_.piece.loads[load];
  const BoundTensor& t = c_.frame.tensor(access.tensor);
  std::vector<Expr> all;
  for (size_t d = 0; d < t.shape.size(); ++d) {
    if (access.index[d].boundary != Boundary::in_range) continue;
    const Affine& index = access.index[d].affine;
    std::vector<Expr> more =
        values_.conditions_at(c_.frame.open.inside(index, t, access.tensor, d, c_.piece), s);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

DType PackingLowering::packed_type(const Packing& packing) const {
  return tile::packed_type(packing, c_.schedule, c_.piece, c_.frame.kernel.tensors);
}

// The element, or the group of neighbours of a dot.
nest::Block PackingLowering::packed_element(const Packing& packing, const State& s) const {
  size_t load = packing.load;
  bool grouped = packed_loops(packing, c_.schedule) < packing.order.size();
  int64_t present = 1;
  if (grouped) present = s.at[packing.order.back().iterator].size.value();
  Value value;
  nest::Store store;
  store.target = c_.packed_access(load, s);
  value.body.results = {grouped ? dots_.packed_group(value, load, present, s)
                                : values_.element(value, load, s)};
  settle(store, std::move(value));
  nest::Block out{statement(std::move(store))};
  nest::If guard;
  for (int64_t i = 0; i < present; ++i) {
    std::vector<Expr> inside = in_range(load, grouped ? dots_.at_neighbour(i, s) : s);
    guard.nonnegative.insert(guard.nonnegative.end(), inside.begin(), inside.end());
  }
  if (guard.nonnegative.empty()) return out;
  guard.then = std::move(out);
  return {statement(std::move(guard))};
}

nest::Block PackingLowering::packing_loops(const Packing& packing, size_t entry,
                                           const State& s) const {
  size_t entries = packed_loops(packing, c_.schedule);
  if (entry == entries) return packed_element(packing, s);
  const Loop& l = packing.order[entry];
  bool groups = entries < packing.order.size() && l.iterator == packing.order.back().iterator &&
                l.step == c_.dot->group;
  if (groups) return packing_groups(packing, entry, s);
  if (nest::Block blocks = packing_blocks(packing, entry, s); !blocks.empty()) return blocks;
  const Position& p = s.at[l.iterator];
  std::string name = c_.variable(l.iterator, s);
  auto inside = [&](const Expr& value, const Expr& size) {
    return packing_loops(packing, entry + 1, moved_to(l, s, value, size));
  };
  if (entry + 1 < entries || l.step != 1) {
    Expr count = floor_div(tidy(p.size + Expr(l.step - 1)), Expr(l.step));
    bool shared = entry == 0 && packing.level == 0 && copied_by_threads_;
    nest::For loop =
        make_loop(name, 0, count, shared ? nest::LoopKind::parallel : nest::LoopKind::serial);
    Expr v = Expr::variable(name);
    bool whole_blocks = p.size.is_constant() && p.size.value() % l.step == 0;
    Expr size = l.step == 1 || whole_blocks ? Expr(l.step)
                                            : min(Expr(l.step), tidy(p.size - Expr(l.step) * v));
    loop.body = inside(v, size);
    return {statement(std::move(loop))};
  }
  return packing_lanes(packing, entry, p.size, s, inside, {});
}

// Elements that one step of the iterator moves the load by in memory; 0: not known.
int64_t PackingLowering::moved_by(size_t load, IteratorId iterator) const {
  const tile::Access& access = c_.piece.loads[load];
  const nest::Buffer& b = c_.frame.nest.buffers[c_.frame.buffer_of.at(access.tensor)];
  bool joined = c_.frame.open.is_open(access.tensor) && c_.frame.open.last_open(access.tensor) > 0;
  if (joined || c_.frame.split.contains(access.tensor)) return 0;
  int64_t sum = 0;
  for (size_t d = 0; d < access.index.size(); ++d) {
    const Rational& factor = access.index[d].affine.coefficient(iterator);
    bool plain = is_plain_index(access.index[d]);
    if (!plain || !factor.is_integer()) return 0;
    sum += factor.num() * b.strides[d];
  }
  return sum;
}

// Whether memory has neighbours along this entry and not along the next one.
bool PackingLowering::rows_are_neighbours(const Packing& packing, size_t entry) const {
  const Loop &rows = packing.order[entry], &lanes = packing.order[entry + 1];
  size_t load = packing.load;
  return rows.step == 1 && lanes.step == 1 && rows.iterator != lanes.iterator &&
         moved_by(load, rows.iterator) == 1 &&
         std::abs(moved_by(load, lanes.iterator)) > kLanesTogether;
}

// Where memory has neighbours along this entry and not along the last one, whose lanes the copy has
// side by side: blocks that are read row by row and transposed. Empty: it is not so.
nest::Block PackingLowering::packing_blocks(const Packing& packing, size_t entry,
                                            const State& s) const {
  size_t entries = packed_loops(packing, c_.schedule);
  bool last = entry + 2 == entries && entries == packing.order.size();
  bool shared = entry == 0 && packing.level == 0 && copied_by_threads_;
  if (!last || shared || is_gpu(c_.frame.target)) return {};
  const Loop &rows = packing.order[entry], &lanes = packing.order[entry + 1];
  if (!rows_are_neighbours(packing, entry)) return {};
  int64_t width =
      std::max<int64_t>(1, c_.frame.target.vector_bits / bit_width(packed_type(packing)));
  std::string name = c_.variable(rows.iterator, s);
  const Expr& size = s.at[rows.iterator].size;
  auto placed = [](State at, IteratorId iterator, const Expr& value) {
    Position& p = at.at[iterator];
    p.levels.push_back({1, tidy(value)});
    p.size = 1;
    return at;
  };
  State any = placed(placed(s, rows.iterator, Expr::variable(name)), lanes.iterator,
                     Expr::variable(c_.variable(lanes.iterator, s)));
  if (!std::holds_alternative<nest::Store>(packed_element(packing, any)[0].what)) return {};
  auto at_row = [&](const Expr& value, bool turned) {
    State inner = placed(s, rows.iterator, value);
    auto inside = [&](const Expr& lane, const Expr&) {
      return packed_element(packing, placed(inner, lanes.iterator, lane));
    };
    return packing_lanes(packing, entry + 1, s.at[lanes.iterator].size, inner, inside,
                         turned ? Unrolled{name, width} : Unrolled{});
  };
  Expr whole = floor_div(size, Expr(width)), rest = floor_mod(size, Expr(width));
  nest::For blocks = make_loop(name + "b", 0, whole, nest::LoopKind::serial);
  blocks.body = at_row(Expr(width) * Expr::variable(blocks.variable) + Expr::variable(name), true);
  nest::Block out;
  if (!whole.is_constant(0)) out.push_back(statement(std::move(blocks)));
  if (rest.is_constant(0)) return out;
  nest::For others = make_loop(name, 0, rest, nest::LoopKind::serial);
  others.body = at_row(Expr(width) * whole + Expr::variable(name), false);
  out.push_back(statement(std::move(others)));
  return out;
}

// The groups of a dot's neighbours: whole ones, then one that zeros fill.
nest::Block PackingLowering::packing_groups(const Packing& packing, size_t entry,
                                            const State& s) const {
  const Loop& l = packing.order[entry];
  const Expr& size = s.at[l.iterator].size;
  Expr whole = floor_div(size, Expr(l.step)), rest = floor_mod(size, Expr(l.step));
  auto inside = [&](const Expr& value, const Expr& present) {
    return packing_loops(packing, entry + 1, moved_to(l, s, value, present));
  };
  nest::Block out;
  if (entry + 1 == packed_loops(packing, c_.schedule)) {
    out = packing_lanes(packing, entry, whole, s,
                        [&](const Expr& v, const Expr&) { return inside(v, l.step); }, {});
  } else if (!whole.is_constant(0)) {
    bool shared = entry == 0 && packing.level == 0 && copied_by_threads_;
    std::string name = c_.variable(l.iterator, s);
    nest::For loop =
        make_loop(name, 0, whole, shared ? nest::LoopKind::parallel : nest::LoopKind::serial);
    loop.body = inside(Expr::variable(name), l.step);
    out.push_back(statement(std::move(loop)));
  }
  for (int64_t present = 1; present < l.step; ++present) {
    if (rest.is_constant() && rest.value() != present) continue;
    std::string name = c_.variable(l.iterator, s) + "r";
    nest::For last = make_loop(name, whole, 1, nest::LoopKind::serial);
    last.body = inside(Expr::variable(name), present);
    if (rest.is_constant()) {
      out.push_back(statement(std::move(last)));
      continue;
    }
    nest::If such;
    such.nonnegative = {rest - Expr(present), Expr(present) - rest};
    such.then = {statement(std::move(last))};
    out.push_back(statement(std::move(such)));
  }
  if (c_.tiles) append(out, zero_groups(packing, entry, s));
  return out;
}

// Groups of zeros up to a whole number of tiles.
nest::Block PackingLowering::zero_groups(const Packing& packing, size_t entry,
                                         const State& s) const {
  const Loop& l = packing.order[entry];
  const Expr& size = s.at[l.iterator].size;
  Expr first = floor_div(tidy(size + Expr(l.step - 1)), Expr(l.step));
  Expr tiles = floor_div(tidy(size + Expr(c_.sizes.terms() - 1)), Expr(c_.sizes.terms()));
  Expr missing = tidy(Expr(c_.sizes.groups) * tiles - first);
  if (missing.is_constant(0)) return {};
  std::string name = c_.variable(l.iterator, s) + "z";
  nest::For zeros = make_loop(name, first, missing, nest::LoopKind::serial);
  zeros.body = packing_loops(packing, entry + 1, moved_to(l, s, Expr::variable(name), 0));
  return {statement(std::move(zeros))};
}

// The contiguous dimension, a vector at a time; `rows`: a loop around each vector.
nest::Block PackingLowering::packing_lanes(
    const Packing& packing, size_t entry, const Expr& count, const State& s,
    const std::function<nest::Block(const Expr&, const Expr&)>& inside,
    const Unrolled& rows) const {
  int64_t width =
      std::max<int64_t>(1, c_.frame.target.vector_bits / bit_width(packed_type(packing)));
  std::string name = c_.variable(packing.order[entry].iterator, s), chunk = name + "c";
  auto lanes = [&](const Expr& base, const Expr& extent) {
    nest::For loop = make_loop(name, 0, extent, nest::LoopKind::vector);
    loop.width = width;
    loop.body = inside(tidy(base + Expr::variable(name)), 1);
    if (rows.extent == 0) return statement(std::move(loop));
    nest::For block = make_loop(rows.variable, 0, rows.extent, nest::LoopKind::unrolled);
    block.body = {statement(std::move(loop))};
    return statement(std::move(block));
  };
  nest::Block out;
  Expr full = floor_div(count, Expr(width)), rest = floor_mod(count, Expr(width));
  if (!full.is_constant(0)) {
    nest::For loop = make_loop(chunk, 0, full, nest::LoopKind::serial);
    loop.body = {lanes(Expr(width) * Expr::variable(chunk), width)};
    out.push_back(statement(std::move(loop)));
  }
  if (!rest.is_constant(0)) out.push_back(lanes(tidy(Expr(width) * full), rest));
  return out;
}

}  // namespace tile::lowering
