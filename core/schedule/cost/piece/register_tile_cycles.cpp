// The cycles of a register tile: its loads, arithmetic and ends.
#include "core/schedule/cost/piece/register_tile_cycles.h"

#include <algorithm>
#include <cmath>

#include "core/schedule/facts/cost_cycles.h"
#include "core/schedule/facts/loop_ranges.h"

namespace tile {
namespace {

// Cycles, and shares of them. [race] and [manual]: cost_cycles.h.
constexpr double kFlippedCycles = 1;  // [manual] flips bits of a scalar that is then broadcast
constexpr double kIssueCycles = 0.2;  // [manual] of any instruction in the front end: five a cycle
constexpr double kJoinShare = 0.25;   // [race] of the joins of neighbours, what products wait for
// [race] Of the loads, what the arithmetic does not hide: on a shared machine another thread works
// on the same core, and its instructions take turns with ours.
constexpr double kLoadsBeside = 0.4;
// [race] Entering and leaving a register tile; the same where the processor foresees the end of the
// reduction, which it does among so many iterations: the next tile begins beside it.
constexpr double kTileStartCycles = 12;
constexpr double kShortStartCycles = 4;
constexpr double kForeseenSteps = 32;
constexpr double kResumeCycles = 4;  // [race] of a vector of sums that earlier blocks have begun
// [race] Adding up the lanes of one vector; where the next row does not wait for the result: of one
// row at a time, of several at once.
constexpr double kLaneCombineCycles = 12;
constexpr double kFreeCombineCycles = 8;
constexpr double kFreeRowsCycles = 18;
}  // namespace

RegisterTileCycles::RegisterTileCycles(const PieceFacts& facts, const PieceSchedule& schedule,
                                       const TileShape& shape)
    : f_(facts), s_(schedule), t_(shape), access_(facts) {
  if (t_.group > 1) form_ = dot_form(f_.piece, f_.contraction, f_.kernel.tensors, t_.group);
  if (f_.reduces) find_resumed();
}

TileCycles RegisterTileCycles::of(const std::vector<double>& counts, double steps,
                                  bool taps) const {
  TileCycles c;
  c.steps = steps;
  for (double n : counts) c.vectors *= n;
  Loads read = loads(counts, taps);
  c.loads = read.cycles;
  take_stores(c);
  double products = c.vectors + read.corrections;
  c.arithmetic = products * (t_.group > 1 ? dot_cycles() : f_.body) + kJoinShare * read.joins;
  double instructions = t_.group > 1 ? products : c.arithmetic / kOperationCycles;
  c.issue = (instructions + read.count) * kIssueCycles;
  c.in_turns = kLoadsBeside * std::min(c.arithmetic, c.loads);
  c.step = std::max({c.arithmetic, c.loads, c.issue}) + c.in_turns;
  c.rounds = f_.chain * waiting_rows(counts);
  c.step = std::max(c.step, c.rounds);
  if (f_.reduces) {
    c.latency = f_.target.core.fma_cycles / static_cast<double>(t_.copies);
    c.loop = kIterationCycles / t_.unroll;
    c.step = std::max(c.step, c.latency) + c.loop;
    c.finish = (form_ && form_->flipped ? 2 : 1) * c.vectors * kOperationCycles;
  }
  add_up(c);
  return c;
}

// What a step of the tile loads, and what joining neighbours of a dot takes.
RegisterTileCycles::Loads RegisterTileCycles::loads(const std::vector<double>& counts,
                                                    bool taps) const {
  bool flips = form_ && form_->flipped;
  Loads all;
  for (size_t i = 0; i < f_.piece.loads.size(); ++i) {
    const AccessFacts& a = f_.accesses[i];
    double n = 1;
    for (size_t j = 0; j < t_.iterators.size(); ++j) {
      bool depends = a.strides[t_.iterators[j]] != 0 || a.gathers;
      if (depends) n *= counts[j];
    }
    n *= a.times;
    if (f_.taps_only && taps) n *= shared_part(a, counts);
    double cycles = access_.load_cycles(a, t_, reads_copied_vectors(i));
    if (t_.group > 1) {
      double joined = group_cycles(i, cycles);
      if (joined > cycles) all.joins += n * (joined - static_cast<double>(t_.group) * cycles);
      cycles = joined;
    }
    if (flips && form_->flipped == i && !is_packed(i)) cycles += kFlippedCycles;
    if (flips && form_->other() == i) all.corrections = n;
    all.cycles += n * (cycles + (t_.group > 1 ? 0 : a.conversion));
    all.count += n;
  }
  return all;
}

// Whether the load's copy has the vector's elements as neighbours.
bool RegisterTileCycles::reads_copied_vectors(size_t load) const {
  return std::any_of(s_.packings.begin(), s_.packings.end(), [&](const Packing& p) {
    IteratorId last = p.order[packed_loops(p, s_) - 1].iterator;
    return p.load == load && (last == t_.vector || last == t_.joined);
  });
}

bool RegisterTileCycles::is_packed(size_t load) const {
  return std::any_of(s_.packings.begin(), s_.packings.end(),
                     [&](const Packing& p) { return p.load == load; });
}

// Of the reads of one step those that are made: a window's taps that are written out read what the
// rows of a tile share once.
double RegisterTileCycles::shared_part(const AccessFacts& a,
                                       const std::vector<double>& counts) const {
  double part = 1;
  for (const Loop& l : s_.reduce) {
    if (l.binding != Binding::unroll || l.step != 1) continue;
    for (size_t j = 0; j < t_.iterators.size(); ++j) {
      if (t_.has_lanes_of(t_.iterators[j])) continue;
      size_t reduction = l.iterator.index();
      part *= a.distinct_part(t_.iterators[j], static_cast<int64_t>(counts[j]), reduction,
                              f_.piece.box[reduction]);
    }
  }
  return part;
}

// Cycles of one vector of groups of neighbours; `cycles`: of a vector of elements. Unless they are
// packed, or one scalar that memory has so, they are joined by a shift and an `or` each.
double RegisterTileCycles::group_cycles(size_t load, double cycles) const {
  const AccessFacts& a = f_.accesses[load];
  int64_t stride = a.strides[s_.reduce.back().iterator];
  bool scalar = !t_.vector.valid() || a.strides[t_.vector] == 0;
  if (is_packed(load) || (scalar && stride == 1)) return cycles;
  auto group = static_cast<double>(t_.group);
  return group * cycles + 3 * (group - 1) * kOperationCycles;
}

// Cycles of a vector of dots.
double RegisterTileCycles::dot_cycles() const {
  double rate = form_ ? dot_per_ns(*form_, f_.target) : 0;
  if (rate <= 0) return f_.body * static_cast<double>(2 * t_.group);  // step by step
  return kOperationCycles * f_.target.fma_per_ns * static_cast<double>(t_.group) / rate;
}

// Whether the reduction is cut, and what is touched between two of its blocks.
void RegisterTileCycles::find_resumed() {
  auto cut = std::find_if(s_.outer.rbegin(), s_.outer.rend(),
                          [&](const Loop& l) { return !f_.is_parallel_dim(l.iterator); });
  resumes_ = cut != s_.outer.rend();
  if (!resumes_) return;
  auto block = static_cast<size_t>(s_.outer.rend() - cut);
  LoopRanges loops(f_.piece, s_);
  double touched = 0;
  for (const AccessFacts& a : f_.accesses) touched += a.footprint(loops.at(block));
  far_sums_ = touched > kUsableCache * static_cast<double>(f_.target.l2_bytes);
}

// What happens to sums between two blocks of the reduction; 0: it is not cut.
double RegisterTileCycles::resumed_cycles(double vectors) const {
  return resumes_ ? vectors * kResumeCycles + (far_sums_ ? kFarSumsCycles : 0) : 0;
}

void RegisterTileCycles::take_stores(TileCycles& c) const {
  for (size_t i = f_.piece.loads.size(); i < f_.accesses.size(); ++i) {
    double cycles = access_.store_cycles(f_.accesses[i], t_);
    (cycles > 2 * kLoadCycles ? c.scattered : c.stores) += c.vectors * cycles;
  }
}

// Rounds of a fold wait for each other, and so do the folds of a tile's rows.
double RegisterTileCycles::waiting_rows(const std::vector<double>& counts) const {
  double rows = 1;
  for (size_t j = 0; j < counts.size(); ++j) {
    if (!t_.has_lanes_of(t_.iterators[j])) rows *= counts[j];
  }
  return rows;
}

// How a tile's steps, its stores and what comes at its ends add up; every field but these is known.
void RegisterTileCycles::add_up(TileCycles& c) const {
  if (f_.reduces) return add_up_sums(c);
  // Scattered lanes leave the arithmetic nothing to hide behind.
  c.start = kTileStartCycles / 4;
  c.total = std::max(c.step, c.stores) + c.scattered + c.start;
}

void RegisterTileCycles::add_up_sums(TileCycles& c) const {
  double ends = c.stores + c.scattered + c.finish;
  double resumed = resumed_cycles(c.vectors);
  ends += resumed;
  c.finish += resumed;
  if (t_.vector < IteratorId(f_.piece.parallel_dims)) {
    if (c.steps > kForeseenSteps || resumed > 0) {
      c.start = kTileStartCycles;
      c.total = c.steps * c.step + ends + c.start;
      return;
    }
    c.beside = true;
    c.start = kShortStartCycles;
    double others =
        std::max(c.steps * c.loads + c.stores, ends - c.stores - c.scattered + c.steps * c.step);
    c.total = others + c.scattered + c.start;
    return;
  }
  if (f_.row_waits) {
    c.start = kTileStartCycles;
    c.lanes = c.vectors * kLaneCombineCycles;
    c.total = c.steps * c.step + ends + c.start + c.lanes;
    return;
  }
  c.lanes = c.vectors * (c.vectors > 1 ? kFreeRowsCycles : kFreeCombineCycles);
  c.total = c.steps * c.step + ends + c.lanes;
}

}  // namespace tile
