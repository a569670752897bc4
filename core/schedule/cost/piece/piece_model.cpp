#include "core/schedule/cost/piece/piece_model.h"

#include <algorithm>
#include <utility>

#include "core/kernel/geometry.h"
#include "core/schedule/cost/piece/amx_cycles.h"
#include "core/schedule/cost/piece/carried_cost.h"
#include "core/schedule/cost/piece/packing_cost.h"
#include "core/schedule/cost/piece/thread_cost.h"
#include "core/schedule/cost/piece/tiling_cycles.h"
#include "core/schedule/cost/piece/traffic.h"
#include "core/support/control.h"

namespace tile {
namespace {

// [race] (cost_cycles.h), as a share: of the smaller costs that the largest does not hide.
constexpr double kOverlap = 0.15;
constexpr double kInterleavedStreamPenalty = 1.5;  // [race] more time of streams read in turns

// Of the register tiles: all, and of that between two blocks of a reduction.
struct Computing {
  double ns = 0, resuming = 0;
};

Computing computing(const PieceFacts& f, const PieceSchedule& s, CostTerm* into) {
  if (uses_tiles(s)) return {AmxCycles(f, s).total(into) * f.cycle_ns, 0};
  TilingCycles tiles(f, s);
  double resuming = tiles.resuming() * f.cycle_ns;
  return {tiles.total(into) * f.cycle_ns, resuming};
}

// What hides each other in part: the register tiles, but for what waits between blocks, and data on
// their way from one level of memory to the next.
struct Overlapped {
  double tiles = 0, second = 0, third = 0, memory = 0, translations = 0;

  double ns() const {
    double most = 0, sum = 0;
    for (double part : {tiles, second, third, memory, translations}) {
      most = std::max(most, part);
      sum += part;
    }
    return most + kOverlap * (sum - most);
  }
  CostTerm term(CostTerm of_tiles, double resuming) const {
    of_tiles.name = "register tiles";
    of_tiles.ns = tiles;
    of_tiles.add_if("of that between blocks of a reduction, told apart", -resuming);
    return combine("computing and moving", Combine::overlap, kOverlap,
                   {std::move(of_tiles), cost_leaf("from the second cache", second),
                    cost_leaf("from the third cache", third), cost_leaf("from memory", memory),
                    cost_leaf("page translations", translations)});
  }
};

double serial_parts_ns(const PieceFacts& f, const PieceSchedule& s, CostTerm* into) {
  checkpoint();
  const Target& t = f.target;
  Traffic traffic(f, s);
  // Of one stream the first cache has the next lines before they are asked for.
  bool lanes_reduce = !s.reduce.empty() && s.reduce.back().binding == Binding::vector;
  double beside =
      lanes_reduce && !s.tile.empty() && s.packings.empty() ? kInterleavedStreamPenalty : 1;
  CostTerm tiles;
  Computing compute = computing(f, s, into == nullptr ? nullptr : &tiles);
  double resuming = compute.resuming;
  Overlapped parts;
  parts.tiles = compute.ns - resuming;
  parts.second = beside * traffic.memory_ns(t.l1_bytes, t.core.l1_ways, t.l2_bytes_per_ns);
  parts.third = traffic.memory_ns(t.l2_bytes, t.core.l2_ways, t.l3_bytes_per_ns);
  parts.memory = traffic.memory_ns(t.l3_bytes, 1, t.dram_bytes_per_ns);
  parts.translations = traffic.translation_ns();
  // Rows of a register that holds a matrix are lines that are used up at once.
  double crowded = uses_tiles(s) ? 0 : traffic.crowded_ns();
  if (into != nullptr) {
    into->add(parts.term(std::move(tiles), resuming));
    into->add_if("sums between blocks of a reduction", resuming);
    into->add_if("lines fetched twice", crowded);
  }
  return resuming + parts.ns() + packing_ns(f, s, into) + crowded;
}

}  // namespace

double PieceModel::serial_ns(const PieceSchedule& s) const {
  if (s.carried.valid()) return fresh_ns(s, nullptr);
  if (!last_ || last_->first != s) last_.emplace(s, fresh_ns(s, nullptr));
  return last_->second;
}

double PieceModel::serial_ns(const PieceSchedule& s, CostTerm* into) const {
  if (into == nullptr) return serial_ns(s);
  into->ns = fresh_ns(s, into);
  return into->ns;
}

double PieceModel::fresh_ns(const PieceSchedule& s, CostTerm* into) const {
  return s.carried.valid() ? CarriedCost(facts_, s).ns(into) : serial_parts_ns(facts_, s, into);
}

double PieceModel::compute_ns(const PieceSchedule& s) const {
  if (uses_tiles(s)) return AmxCycles(facts_, s).total(nullptr) * facts_.cycle_ns;
  return TilingCycles(facts_, s).total(nullptr) * facts_.cycle_ns;
}

double PieceModel::nanoseconds(const PieceSchedule& s, CostTerm* into) const {
  CostTerm work;
  work.name = "work";
  double tasks = tasks_of(s, facts_.piece),
         serial = serial_ns(s, into == nullptr ? nullptr : &work);
  double workers = workers_for(serial, tasks, facts_.target);
  double first = first_share(facts_, s, tasks, workers);
  double threaded =
      threaded_ns(serial, tasks, facts_.target, first, into == nullptr ? nullptr : &work);
  double copying = copying_overhead_ns(facts_, s, workers),
         contended = contended_ns(facts_, s, workers);
  double total = threaded + copying + contended;
  if (into == nullptr) return total;
  into->add(std::move(work));
  into->add_if("copies handed to other threads", copying);
  into->add_if("lines that threads share", contended);
  into->ns = total;
  return total;
}

bool PieceModel::threaded(const PieceSchedule& s) const {
  return workers_for(serial_ns(s), tasks_of(s, facts_.piece), facts_.target) >= 2;
}

double PieceModel::joining_ns(const PieceSchedule& s, CostTerm* into) const {
  double tasks = tasks_of(s, facts_.piece);
  double workers = std::min(tasks, static_cast<double>(std::max(facts_.target.threads, 1)));
  CostTerm work;
  work.name = "work";
  double serial = serial_ns(s, into == nullptr ? nullptr : &work);
  double share = first_share(facts_, s, tasks, workers),
         copying = copying_overhead_ns(facts_, s, workers);
  double total = serial * share + copying;
  if (into == nullptr) return total;
  into->add(combine("one thread's share", Combine::sum, share, {std::move(work)}));
  into->parts.back().facts = {{"tasks", tasks}, {"threads", workers}};
  into->add_if("copies handed to other threads", copying);
  into->ns = total;
  return total;
}

double piece_nanoseconds(const Piece& piece, const Contraction& c, const Kernel& kernel,
                         const PieceSchedule& schedule, const Target& target) {
  return PieceModel(piece, c, kernel, target).serial_ns(schedule);
}

double attached_ns(const KernelStage& stage, const Kernel& kernel, const Target& target) {
  double total = 0;
  for (const Piece& piece : stage.contraction.pieces) {
    PieceFacts f(piece, stage.contraction, kernel, target);
    total += f.points() / static_cast<double>(f.lanes) * (f.body + 1) * f.cycle_ns;
  }
  return total;
}

}  // namespace tile
