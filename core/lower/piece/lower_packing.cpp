// Packing: the block of a load that the loops inside a level use is copied into a dense buffer in
// the order in which they use it.
#include <algorithm>
#include <cstdlib>

#include "core/lower/piece/lowering.h"
#include "core/schedule/cost/cost.h"

namespace tile::lowering {
namespace {

// The step of the entry before `entry` over the same iterator; 0: it is the first.
int64_t step_before(const Packing& packing, size_t entry) {
  for (size_t i = entry; i-- > 0;) {
    if (packing.order[i].iterator == packing.order[entry].iterator) return packing.order[i].step;
  }
  return 0;
}

}  // namespace

int Frame::add_prepacked(const PrepackedPacking& what, const PieceSchedule& schedule,
                         bool written) {
  const Piece& piece = kernel.stages[what.stage].contraction.pieces[what.piece];
  int id =
      add_buffer("prepared", packed_type(what.packing, schedule, piece, kernel.tensors),
                 nest::Scope::argument, packed_shape(what.packing, schedule, piece, piece.box));
  nest.buffers[static_cast<size_t>(id)].written = written;
  return id;
}

void Frame::take_prepacked(const Schedule& schedule) {
  for (PrepackedPacking& p : prepacked_packings(kernel, schedule, target)) {
    int buffer = add_prepacked(p, schedule.stages[p.stage][p.piece], false);
    prepared.push_back({std::move(p), buffer});
  }
}

const Packing& PieceLowering::packing_of(size_t load) const {
  if (auto known = prepared_.find(load); known != prepared_.end())
    return known->second->what.packing;
  return *std::find_if(schedule_.packings.begin(), schedule_.packings.end(),
                       [&](const Packing& p) { return p.load == static_cast<int>(load); });
}

std::vector<int64_t> PieceLowering::bounds(const State& s) const {
  std::vector<int64_t> range;
  for (const Position& p : s.at) range.push_back(p.bound);
  return range;
}

nest::Block PieceLowering::prepare_copy(const Packing& whole) {
  copied_by_threads_ = parallel_ > 0;
  return packing_loops(whole, 0, whole_box());
}

nest::Access PieceLowering::packed_access(size_t load, const State& s) const {
  nest::Access a;
  a.buffer = s.packed[load];
  const Packing& packing = packing_of(load);
  for (size_t e = 0; e < packed_loops(packing, schedule_); ++e) {
    const Loop& entry = packing.order[e];
    auto u = static_cast<size_t>(entry.iterator);
    int64_t before = step_before(packing, e);
    Expr sum = 0;
    for (size_t i = s.outside[load][u]; i < s.at[u].levels.size(); ++i) {
      const Level& level = s.at[u].levels[i];
      bool mine = level.step >= entry.step && (before == 0 || level.step < before);
      if (mine) sum = sum + Expr(level.step / entry.step) * level.value;
    }
    a.index.push_back(tidy(sum));
  }
  return a;
}

nest::Block PieceLowering::pack(const Packing& packing, State& s) {
  auto load = static_cast<size_t>(packing.load);
  if (prepared(load)) return {};
  DType type = packed_type(packing);
  auto [known, added] = packing_buffers_.try_emplace(load, -1);
  if (added) {
    nest::Scope scope =
        packing.level == 0 && parallel_ > 0 ? nest::Scope::workspace : nest::Scope::scratch;
    known->second = frame_.add_buffer("packed", type, scope,
                                      packed_shape(packing, schedule_, piece_, bounds(s)));
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
bool PieceLowering::copied_by_threads() const {
  bool known = walker_ < 0 && !is_gpu(frame_.target);
  if (parallel_ == 0 || !known) return parallel_ > 0;
  PieceModel model(piece_, contraction_, frame_.kernel, frame_.target);
  return model.packing_ns(schedule_) >= kChunkNanoseconds;
}

// Indices in range wherever a valid point reads; other elements of the block are never used.
std::vector<Expr> PieceLowering::in_range(size_t load, const State& s) const {
  const tile::Access& access = piece_.loads[load];
  const Shape& shape = frame_.tensor(access.tensor).shape;
  std::vector<Expr> all;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (access.index[d].boundary != Boundary::in_range) continue;
    Constraint inside{access.index[d].affine, 0, shape[d], true};
    std::vector<Expr> more =
        conditions(inside, piece_, [&](const Affine& form) { return value_of(form, s); });
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

DType PieceLowering::packed_type(const Packing& packing) const {
  return tile::packed_type(packing, schedule_, piece_, frame_.kernel.tensors);
}

// The element, or the group of neighbours of a dot.
nest::Block PieceLowering::packed_element(const Packing& packing, const State& s) const {
  auto load = static_cast<size_t>(packing.load);
  bool grouped = packed_loops(packing, schedule_) < packing.order.size();
  int64_t present = 1;
  if (grouped) present = s.at[static_cast<size_t>(packing.order.back().iterator)].size.value();
  Value value;
  nest::Store store;
  store.target = packed_access(load, s);
  value.body.results = {grouped ? packed_group(value, load, present, s) : element(value, load, s)};
  settle(store, std::move(value));
  nest::Block out{statement(std::move(store))};
  nest::If guard;
  for (int64_t i = 0; i < present; ++i) {
    std::vector<Expr> inside = in_range(load, grouped ? at_neighbour(i, s) : s);
    guard.nonnegative.insert(guard.nonnegative.end(), inside.begin(), inside.end());
  }
  if (guard.nonnegative.empty()) return out;
  guard.then = std::move(out);
  return {statement(std::move(guard))};
}

nest::Block PieceLowering::packing_loops(const Packing& packing, size_t entry, const State& s) {
  size_t entries = packed_loops(packing, schedule_);
  if (entry == entries) return packed_element(packing, s);
  const Loop& l = packing.order[entry];
  bool groups = entries < packing.order.size() && l.iterator == packing.order.back().iterator &&
                l.step == dot_->group;
  if (groups) return packing_groups(packing, entry, s);
  if (nest::Block blocks = packing_blocks(packing, entry, s); !blocks.empty()) return blocks;
  const Position& p = s.at[static_cast<size_t>(l.iterator)];
  std::string name = variable(l.iterator, s);
  auto inside = [&](const Expr& value, const Expr& size) {
    State inner = s;
    Position& at = inner.at[static_cast<size_t>(l.iterator)];
    at.levels.push_back({l.step, value});
    at.size = size;
    return packing_loops(packing, entry + 1, inner);
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
int64_t PieceLowering::moved_by(size_t load, int iterator) const {
  const tile::Access& access = piece_.loads[load];
  const nest::Buffer& b =
      frame_.nest.buffers[static_cast<size_t>(frame_.buffer_of.at(access.tensor))];
  if (frame_.split.contains(access.tensor)) return 0;
  int64_t sum = 0;
  for (size_t d = 0; d < access.index.size(); ++d) {
    const Rational& factor = access.index[d].affine.coefficient(static_cast<size_t>(iterator));
    bool plain = access.index[d].value < 0 && access.index[d].boundary == Boundary::in_range;
    if (!plain || !factor.is_integer()) return 0;
    sum += factor.num() * b.strides[d];
  }
  return sum;
}

// Where memory has neighbours along this entry and not along the last one, whose lanes the copy has
// side by side: blocks that are read row by row and turned. Empty: it is not so.
nest::Block PieceLowering::packing_blocks(const Packing& packing, size_t entry, const State& s) {
  size_t entries = packed_loops(packing, schedule_);
  bool last = entry + 2 == entries && entries == packing.order.size();
  bool shared = entry == 0 && packing.level == 0 && copied_by_threads_;
  if (!last || shared || is_gpu(frame_.target)) return {};
  const Loop &rows = packing.order[entry], &lanes = packing.order[entry + 1];
  auto load = static_cast<size_t>(packing.load);
  bool apart = rows.step == 1 && lanes.step == 1 && rows.iterator != lanes.iterator &&
               moved_by(load, rows.iterator) == 1 &&
               std::abs(moved_by(load, lanes.iterator)) > kLanesTogether;
  if (!apart) return {};
  int64_t width = std::max<int64_t>(1, frame_.target.vector_bits / bit_width(packed_type(packing)));
  std::string name = variable(rows.iterator, s);
  const Expr& size = s.at[static_cast<size_t>(rows.iterator)].size;
  auto placed = [](State at, int iterator, const Expr& value) {
    Position& p = at.at[static_cast<size_t>(iterator)];
    p.levels.push_back({1, tidy(value)});
    p.size = 1;
    return at;
  };
  State any = placed(placed(s, rows.iterator, Expr::variable(name)), lanes.iterator,
                     Expr::variable(variable(lanes.iterator, s)));
  if (!std::holds_alternative<nest::Store>(packed_element(packing, any)[0].what)) return {};
  auto at_row = [&](const Expr& value, bool turned) {
    State inner = placed(s, rows.iterator, value);
    auto inside = [&](const Expr& lane, const Expr&) {
      return packed_element(packing, placed(inner, lanes.iterator, lane));
    };
    return packing_lanes(packing, entry + 1, s.at[static_cast<size_t>(lanes.iterator)].size, inner,
                         inside, turned ? Unrolled{name, width} : Unrolled{});
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
nest::Block PieceLowering::packing_groups(const Packing& packing, size_t entry, const State& s) {
  const Loop& l = packing.order[entry];
  const Expr& size = s.at[static_cast<size_t>(l.iterator)].size;
  Expr whole = floor_div(size, Expr(l.step)), rest = floor_mod(size, Expr(l.step));
  auto inside = [&](const Expr& value, const Expr& present) {
    State inner = s;
    Position& at = inner.at[static_cast<size_t>(l.iterator)];
    at.levels.push_back({l.step, value});
    at.size = present;
    return packing_loops(packing, entry + 1, inner);
  };
  nest::Block out;
  if (entry + 1 == packed_loops(packing, schedule_)) {
    out = packing_lanes(packing, entry, whole, s,
                        [&](const Expr& v, const Expr&) { return inside(v, l.step); }, {});
  } else if (!whole.is_constant(0)) {
    bool shared = entry == 0 && packing.level == 0 && copied_by_threads_;
    std::string name = variable(l.iterator, s);
    nest::For loop =
        make_loop(name, 0, whole, shared ? nest::LoopKind::parallel : nest::LoopKind::serial);
    loop.body = inside(Expr::variable(name), l.step);
    out.push_back(statement(std::move(loop)));
  }
  for (int64_t present = 1; present < l.step; ++present) {
    if (rest.is_constant() && rest.value() != present) continue;
    std::string name = variable(l.iterator, s) + "r";
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
  if (!tiles_) return out;
  // Groups of zeros up to a whole number of tiles.
  Expr first = floor_div(tidy(size + Expr(l.step - 1)), Expr(l.step));
  Expr tiles = floor_div(tidy(size + Expr(sizes_.terms() - 1)), Expr(sizes_.terms()));
  Expr missing = tidy(Expr(sizes_.groups) * tiles - first);
  if (missing.is_constant(0)) return out;
  std::string name = variable(l.iterator, s) + "z";
  nest::For zeros = make_loop(name, first, missing, nest::LoopKind::serial);
  zeros.body = inside(Expr::variable(name), 0);
  out.push_back(statement(std::move(zeros)));
  return out;
}

// The contiguous dimension, a vector at a time; `rows`: a loop around each vector.
nest::Block PieceLowering::packing_lanes(
    const Packing& packing, size_t entry, const Expr& count, const State& s,
    const std::function<nest::Block(const Expr&, const Expr&)>& inside,
    const Unrolled& rows) const {
  int64_t width = std::max<int64_t>(1, frame_.target.vector_bits / bit_width(packed_type(packing)));
  std::string name = variable(packing.order[entry].iterator, s), chunk = name + "c";
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
