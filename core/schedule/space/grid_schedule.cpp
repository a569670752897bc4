#include "core/schedule/space/grid_schedule.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/ir/analysis/accesses.h"
#include "core/kernel/geometry.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "core/support/checked.h"

namespace tile {
namespace {

// Iterations along a dimension that is cut into ranges of neighbours, about.
constexpr int64_t kRanges = 2048;
constexpr int64_t kLeastRange = 64;  // cells: some vectors
constexpr int64_t kLongRow = 1 << 16;
// Of the kernel's own best schedules, whose register tiles the grid's may have.
constexpr size_t kChoices = 12;

// The iterator that alone is the index of each dimension of what the piece stores first.
std::optional<std::vector<IteratorId>> stored_iterators(const Piece& piece) {
  std::vector<IteratorId> list;
  for (const Index& index : piece.stores.at(0).index) {
    IteratorId only = sole_iterator(index, piece);
    bool fresh = only.valid() && std::find(list.begin(), list.end(), only) == list.end();
    if (!fresh) return std::nullopt;
    list.push_back(only);
  }
  return list;
}

// A stage with loops of its own, of one piece.
struct OwnLoops {
  StageId stage;
  const Contraction* contraction;
  const Piece* piece;
};
// All of them; nullopt: one has several pieces, or they share no rows.
std::optional<std::vector<OwnLoops>> own_loops(const Kernel& kernel) {
  std::vector<OwnLoops> list;
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    const KernelStage& stage = kernel.stages[i];
    if (stage.attach.valid()) continue;
    const Contraction& c = stage.contraction;
    if (c.pieces.size() != 1 || c.pieces[0].stores.empty() || stage.stream.valid()) {
      return std::nullopt;
    }
    list.push_back({StageId(i), &c, c.pieces.data()});
  }
  if (list.size() != 1 && row_loops(kernel) == 0) return std::nullopt;
  return list;
}

// The loops of such a stage; null: the schedule has none.
template <class S>
auto* loops_of(S& schedule, const OwnLoops& own) {
  bool one = own.stage.index() < schedule.stages.size() &&
             schedule.stages[own.stage.index()].size() == 1 &&
             !schedule.stages[own.stage.index()][0].has_gpu_form();
  return one ? &schedule.stages[own.stage.index()][0] : nullptr;
}

bool reduces_outside(const PieceSchedule& schedule, const Piece& piece) {
  return std::any_of(schedule.outer.begin(), schedule.outer.end(),
                     [&](const Loop& l) { return !piece.is_parallel(l.iterator); });
}

// Whether the loops visit values in one order, written out or not.
bool same_loops(const std::vector<Loop>& a, const std::vector<Loop>& b) {
  auto plain = [](const Loop& l) {
    return l.binding == Binding::serial || l.binding == Binding::unroll;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Loop& x, const Loop& y) {
    bool alike = x.binding == y.binding || (plain(x) && plain(y));
    return x.iterator == y.iterator && x.step == y.step && alike;
  });
}

// Smaller tiles leave registers for several accumulators of a cell, which would change the order.
void keep_one_accumulator(PieceSchedule& loops, const PieceSchedule& before, const OwnLoops& own,
                          const Target& target) {
  size_t loop = 0;
  if (accumulator_copies(before, *own.piece, *own.contraction, target, loop) > 1) return;
  while (accumulator_copies(loops, *own.piece, *own.contraction, target, loop) > 1) {
    loops.reduce[loop].binding = Binding::serial;
  }
}

// Loops over the iterator that the grid's step covers go.
void put_first(PieceSchedule& piece, const std::vector<IteratorId>& iterators,
               const std::vector<int64_t>& steps) {
  for (Loop& l : piece.outer) {
    if (l.binding == Binding::parallel) l.binding = Binding::serial;
  }
  for (size_t d = 0; d < steps.size(); ++d) {
    auto covered = [&](const Loop& l) { return l.iterator == iterators[d] && l.step >= steps[d]; };
    std::erase_if(piece.outer, covered);
    std::erase_if(piece.tile, covered);
  }
  for (size_t d = steps.size(); d-- > 0;) {
    piece.outer.insert(piece.outer.begin(), Loop{iterators[d], steps[d], Binding::parallel});
  }
}

// Whether a stage reads what another one makes, beside those in whose tiles it is.
bool reads_across(const Kernel& kernel) {
  std::map<TensorId, size_t> made;  // by the stage with loops of its own
  std::vector<size_t> own;
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    const KernelStage& stage = kernel.stages[i];
    own.push_back(stage.attach.valid() ? own[stage.attach.index()] : i);
    for (TensorId id : stage.contraction.outputs) made[id] = own[i];
  }
  for (size_t i = 0; i < kernel.stages.size(); ++i) {
    for (const Piece& piece : kernel.stages[i].contraction.pieces) {
      for (const Access& load : piece.loads) {
        auto by = made.find(load.tensor);
        if (by != made.end() && by->second != own[i]) return true;
      }
    }
  }
  return false;
}

// What tiles at both ends of a row cost, which test each of their reads, over others.
double border_factor(const GridSchedule& made, const Kernel& kernel) {
  constexpr double kTimes = 2.5;  // a heat step in three dimensions, measured on Zen 5
  const Piece& piece = kernel.stages[0].contraction.pieces[0];  // which is never attached
  const PieceSchedule& loops = made.schedule.stages[0][0];
  if (loops.tile.empty() || loops.outer.empty()) return 1;
  IteratorId along = loops.tile.back().iterator;
  int64_t width = 1;
  for (const Loop& l : loops.outer) {
    if (l.iterator == along) width = l.step;
  }
  double tiles = static_cast<double>(piece.box[along]) / static_cast<double>(width);
  double border = std::min(1.0, 2 / std::max(1.0, tiles));
  return 1 + border * (kTimes - 1);
}

}  // namespace

bool same_order_of_terms(const Schedule& a, const Schedule& b, const Kernel& kernel,
                         const Target& target) {
  auto stages = own_loops(kernel);
  return stages && std::all_of(stages->begin(), stages->end(), [&](const OwnLoops& own) {
           const PieceSchedule *x = loops_of(a, own), *y = loops_of(b, own);
           const Piece& piece = *own.piece;
           if (x == nullptr || y == nullptr || x->carried.valid() || y->carried.valid())
             return false;
           if (piece.parallel_dims == piece.iterators.size()) return true;
           size_t first = 0, second = 0;
           bool same = same_loops(x->reduce, y->reduce) && !reduces_outside(*x, piece) &&
                       !reduces_outside(*y, piece) && !uses_tiles(*x) && !uses_tiles(*y);
           return same && accumulator_copies(*x, piece, *own.contraction, target, first) ==
                              accumulator_copies(*y, piece, *own.contraction, target, second);
         });
}

std::optional<GridSchedule> grid_schedule(const Schedule& schedule,
                                          const std::vector<int64_t>& steps, const Kernel& kernel,
                                          const Target& target) {
  auto stages = own_loops(kernel);
  if (!stages || steps.empty()) return std::nullopt;
  GridSchedule made{kernel, schedule, {}};
  if (stages->size() > 1 && !reads_across(kernel)) {
    for (const OwnLoops& own : *stages) made.kernel.stages[own.stage].rows = {};
  }
  if (row_loops(kernel) > 0) made.schedule.shared = steps.size();
  for (const OwnLoops& own : *stages) {
    PieceSchedule* loops = loops_of(made.schedule, own);
    // Copies are made inside so many outer loops as before: there are others now.
    bool plain = loops != nullptr && !loops->carried.valid() && loops->packings.empty();
    auto iterators = stored_iterators(*own.piece);
    if (!plain || !iterators || iterators->size() < steps.size()) return std::nullopt;
    auto& rows = made.kernel.stages[own.stage].rows;
    for (size_t d = 0; d < steps.size() && rows.size() < steps.size() && stages->size() > 1; ++d) {
      rows.push_back((*iterators)[d]);
    }
    put_first(*loops, *iterators, steps);
    keep_one_accumulator(*loops, *loops_of(schedule, own), own, target);
    std::vector<int64_t> grid;
    for (size_t d = 0; d < steps.size(); ++d) {
      grid.push_back(ceil_div(own.piece->box[(*iterators)[d]], steps[d]));
    }
    if (!made.grid.empty() && made.grid != grid) return std::nullopt;
    made.grid = std::move(grid);
  }
  bool good = illegal(made.schedule, made.kernel, target).empty() &&
              same_order_of_terms(schedule, made.schedule, kernel, target);
  if (!good) return std::nullopt;
  return made;
}

std::optional<GridSchedule> best_grid_schedule(const Schedule& schedule,
                                               const std::vector<int64_t>& steps,
                                               const Kernel& kernel, const Target& target) {
  std::vector<Schedule> from = candidates(kernel, target, kChoices);
  from.insert(from.begin(), schedule);
  std::optional<GridSchedule> best;
  double least = 0;
  for (const Schedule& s : from) {
    if (!same_order_of_terms(schedule, s, kernel, target)) continue;
    std::optional<GridSchedule> made = grid_schedule(s, steps, kernel, target);
    if (!made) continue;
    double ns = cached_time(made->schedule, made->kernel, target) * border_factor(*made, kernel);
    if (best && ns >= least) continue;
    least = ns;
    best = std::move(made);
  }
  return best;
}

std::vector<int64_t> grid_steps(const std::vector<int64_t>& shape) {
  auto range = [](int64_t cells) {
    int64_t step = kLeastRange;
    while (cells / step > kRanges) step *= 2;
    return step;
  };
  if (shape.empty()) return {};
  if (shape.size() == 1) return {range(shape[0])};
  if (shape.size() > 2) return {1, 1};
  if (shape[1] >= kLongRow) return {1, range(shape[1])};
  return {1};
}

double cached_time(const Schedule& schedule, const Kernel& kernel, Target target) {
  target.dram_bytes_per_ns = target.l3_bytes_per_ns = target.l2_bytes_per_ns;
  target.parallel_overhead_ns = 0;
  return estimate(schedule, kernel, target);
}

}  // namespace tile
