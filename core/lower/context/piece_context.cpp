// What follows from a piece and its schedule.
#include "core/lower/context/piece_context.h"

#include <algorithm>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/coverage.h"
#include "core/kernel/geometry.h"
#include "core/kernel/stream.h"
#include "core/lower/launch/nest_builders.h"
#include "core/schedule/cost/piece/piece_model.h"
#include "core/schedule/cost/piece/thread_cost.h"

namespace tile::lowering {

namespace {

// The schedule with copies of rows for tile registers that the tensors' strides leave apart.
PieceSchedule fitted(const PieceSchedule& schedule, const Frame& frame, const Piece& piece,
                     const Contraction& c) {
  if (!uses_tiles(schedule)) return schedule;
  PieceSchedule s = schedule;
  DotForm form = *tile_form(s, piece, c, frame.kernel.tensors);
  bool packed = std::any_of(s.packings.begin(), s.packings.end(),
                            [&](const Packing& p) { return p.load == form.x; });
  const tile::Access& rows = piece.loads[form.x];
  auto buffer = frame.buffer_of.find(rows.tensor);
  if (packed || buffer == frame.buffer_of.end()) return s;
  IteratorId k = s.reduce.back().iterator;
  std::vector<int64_t> steps;
  for (const Index& index : rows.index) steps.push_back(index.affine.coefficient(k).num());
  bool split = frame.split.contains(rows.tensor);
  if (!split && !frame.open.is_open(rows.tensor) &&
      elements_moved(steps, frame.nest.buffers[buffer->second]) == 1)
    return s;
  Packing p{form.x, s.outer.size(), {}};
  std::vector<Loop> inside = s.reduce;
  inside.insert(inside.end(), s.tile.begin(), s.tile.end());
  std::vector<Loop> last;
  for (const Loop& l : inside) {
    bool wanted = l.step == 1 || l.binding == Binding::matrix;
    if (!wanted || !moves_with(rows, l.iterator)) continue;
    bool along = l.iterator == k;
    (along ? last : p.order).push_back({l.iterator, l.step, Binding::serial});
  }
  p.order.insert(p.order.end(), last.begin(), last.end());
  s.packings.push_back(std::move(p));
  return s;
}

// The step of the entry before `entry` over the same iterator; 0: it is the first.
int64_t step_before(const Packing& packing, size_t entry) {
  for (size_t i = entry; i-- > 0;) {
    if (packing.order[i].iterator == packing.order[entry].iterator) return packing.order[i].step;
  }
  return 0;
}

// Whether each load is inside its tensor on the whole box, at every size. What data decides, and
// what a fold's counter decides, is not known.
bool reads_inside_on_box(const Piece& piece, const Frame& frame) {
  return std::all_of(piece.loads.begin(), piece.loads.end(), [&](const tile::Access& load) {
    const BoundTensor& t = frame.tensor(load.tensor);
    for (size_t d = 0; d < load.index.size(); ++d) {
      const Index& index = load.index[d];
      if (index.boundary != Boundary::in_range) continue;
      if (index.value >= 0 || !index.affine.is_integral()) return false;
      Condition inside = frame.open.inside(index.affine, t, load.tensor, d, piece);
      if (!inside.never_below || !inside.never_above) return false;
    }
    return true;
  });
}

}  // namespace

int64_t elements_moved(const std::vector<int64_t>& steps, const nest::Buffer& b) {
  int64_t elements = 0;
  for (size_t d = 0; d < steps.size(); ++d) elements += steps[d] * b.strides[d];
  return elements;
}

PieceContext::PieceContext(Frame& nest_frame, size_t stage_number, size_t piece_number,
                           const PieceSchedule& given)
    : frame(nest_frame),
      contraction(nest_frame.kernel.stages[stage_number].contraction),
      stage(stage_number),
      number_in_stage(piece_number),
      piece(contraction.pieces[piece_number]),
      schedule(fitted(given, nest_frame, piece, contraction)),
      constraints(place_constraints(piece, given, has_stream(nest_frame.kernel))),
      names(plain_names(piece.iterators)) {
  reduces = piece.parallel_dims < piece.box.size();
  blocked = std::any_of(given.outer.begin(), given.outer.end(),
                        [&](const Loop& l) { return !piece.is_parallel(l.iterator); });
  bool zero_if_empty = contraction.aggregation == Aggregation::sum && !contraction.fill;
  may_be_empty = reduces && !given.carried.valid() && !zero_if_empty && !surely_nonempty(piece);
  sums_all_cells = reduces && !given.carried.valid() && !is_gpu(frame.target) &&
                   reads_inside_on_box(piece, frame);
  lanes_reduce = !given.reduce.empty() && given.reduce.back().binding == Binding::vector;
  if (lanes_reduce) lane_width = lane_count(given.reduce, piece);
  tile_shape = tile::tile_shape(given, piece);
  carried_loops = carried_tile_loops(given);
  copies = accumulator_copies(given, piece, contraction, frame.target, copy_loop);
  if (dot_group(given) > 1) {
    dot = form_of(given, piece, contraction, frame.kernel.tensors);
  }
  tiles = uses_tiles(given);
  if (tiles) sizes = tile_sizes(given, piece);
  for (const Frame::Prepared& p : frame.prepared) {
    bool own = p.what.stage == stage && p.what.piece == number_in_stage;
    if (own) prepared[p.what.packing.load] = &p;
  }
  if (frame.form != nullptr) parametric_tiling = frame.form->blocks[stage][number_in_stage];
  while (parallel < given.outer.size() && given.outer[parallel].binding == Binding::parallel) {
    ++parallel;
  }
}

std::string PieceContext::variable(IteratorId iterator, const State& s) const {
  return names[iterator] + "_" + std::to_string(s.at[iterator].levels.size());
}

State PieceContext::whole_box() const {
  State s;
  s.at.resize(piece.box.size());
  for (IteratorId u : piece.box.ids()) {
    s.at[u].size = extent(u);
    s.at[u].bound = most(u);
  }
  s.packed.assign(piece.loads.size(), nest::BufferId());
  s.outside.resize(piece.loads.size());
  for (const auto& [load, copy] : prepared) {
    s.packed[load] = copy->buffer;
    s.outside[load].assign(s.at.size(), 0);
  }
  return s;
}

const Packing& PieceContext::packing_of(size_t load) const {
  if (auto known = prepared.find(load); known != prepared.end()) return known->second->what.packing;
  return *std::find_if(schedule.packings.begin(), schedule.packings.end(),
                       [&](const Packing& p) { return p.load == load; });
}

nest::Access PieceContext::packed_access(size_t load, const State& s) const {
  nest::Access a;
  a.buffer = s.packed[load];
  const Packing& packing = packing_of(load);
  for (size_t e = 0; e < packed_loops(packing, schedule); ++e) {
    const Loop& entry = packing.order[e];
    IteratorId u = entry.iterator;
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

int64_t PieceContext::masked_lanes(IteratorId iterator) const {
  const std::vector<Loop>& loops = schedule.tile;
  bool lanes = !loops.empty() && loops.back().iterator == iterator &&
               loops.back().binding == Binding::vector && !is_gpu(frame.target);
  if (!lanes) return 0;
  int64_t width = tile_shape.back();
  for (size_t i = 0; i + 1 < loops.size(); ++i) {
    if (loops[i].binding == Binding::vector) return 0;  // lanes of two iterators
    if (loops[i].iterator == iterator && loops[i].step != width) return 0;
  }
  return width;
}

bool PieceContext::is_bounded(IteratorId iterator) const {
  return std::any_of(constraints.begin(), constraints.end(), [&](const PlacedConstraint& p) {
    return p.place == Place::bound && p.iterator == iterator;
  });
}

int64_t PieceContext::grain_of(int64_t tasks) const {
  return parallel_grain(piece_nanoseconds(piece, contraction, frame.kernel, schedule, frame.target),
                        tasks);
}

}  // namespace tile::lowering
