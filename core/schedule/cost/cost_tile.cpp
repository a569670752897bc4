// The cycles of a register tile: its loads, arithmetic and borders.
#include <algorithm>
#include <cmath>

#include "core/kernel/forms/amx_tiles.h"
#include "core/kernel/geometry.h"
#include "core/schedule/cost/cost.h"
#include "core/schedule/cost/cost_cycles.h"
#include "core/schedule/cost/traffic.h"

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
// [race] More time that a tile takes, as a share of it: where its points are tested, where rows are
// left out instead, where lanes of pairs are tested, which then cannot share reads, where lanes
// are.
constexpr double kTestedTile = 0.7;
constexpr double kShortenedTile = 0.1;
constexpr double kGatheredTile = 16;
constexpr double kMaskedTile = 0.6;

}  // namespace

// Vectors, or values of an iterator that has no lanes.
double PieceModel::vectors_of(const TileShape& t, size_t iterator, int64_t size) const {
  bool joined = IteratorId(iterator) == t.joined;
  if (joined) size *= piece_.box[t.vector];
  bool vector = IteratorId(iterator) == t.vector;
  return static_cast<double>(vector || joined ? ceil_div(size, lanes_) : size);
}

// Cycles of a vector of dots.
double PieceModel::dot_cycles(const std::optional<DotForm>& form, int64_t group) const {
  double rate = form ? dot_per_ns(*form, target_) : 0;
  if (rate <= 0) return body_ * static_cast<double>(2 * group);  // step by step
  return kOperationCycles * target_.fma_per_ns * static_cast<double>(group) / rate;
}

// What a step of the tile loads, and what joining neighbours of a dot takes.
PieceModel::TileLoads PieceModel::tile_loads(const PieceSchedule& s, const TileShape& t,
                                             const std::vector<double>& counts,
                                             const std::optional<DotForm>& form, bool taps) const {
  bool flips = form && form->flipped;
  TileLoads all;
  for (size_t i = 0; i < piece_.loads.size(); ++i) {
    double n = 1;
    for (size_t j = 0; j < t.iterators.size(); ++j) {
      bool depends = accesses_[i].strides[t.iterators[j]] != 0 || accesses_[i].gathers;
      if (depends) n *= counts[j];
    }
    bool packed = std::any_of(s.packings.begin(), s.packings.end(), [&](const Packing& p) {
      IteratorId last = p.order[packed_loops(p, s) - 1].iterator;
      return p.load == i && (last == t.vector || last == t.joined);
    });
    n *= accesses_[i].times;
    if (taps_only_ && taps) n *= shared_part(s, t, accesses_[i], counts);
    double cycles = access_cycles(accesses_[i], t, packed);
    if (t.group > 1) {
      double joined = group_cycles(s, t, i, cycles);
      if (joined > cycles) all.joins += n * (joined - static_cast<double>(t.group) * cycles);
      cycles = joined;
    }
    if (flips && form->flipped == i && !is_packed(s, i)) cycles += kFlippedCycles;
    if (flips && form->other() == i) all.corrections = n;
    all.cycles += n * (cycles + (t.group > 1 ? 0 : accesses_[i].conversion));
    all.count += n;
  }
  return all;
}

// What happens to sums between two blocks of the reduction; 0: it is not cut.
double PieceModel::resumed_cycles(const PieceSchedule& s, double vectors) const {
  auto cut = std::find_if(s.outer.rbegin(), s.outer.rend(),
                          [&](const Loop& l) { return !piece_.is_parallel(l.iterator); });
  if (cut == s.outer.rend()) return 0;
  // What is touched between two blocks of the reduction.
  auto block = static_cast<size_t>(s.outer.rend() - cut);
  LoopRanges loops(piece_, s);
  double touched = 0;
  for (const AccessModel& a : accesses_) touched += footprint(a, loops.at(block));
  bool far = touched > kUsableCache * static_cast<double>(target_.l2_bytes);
  return vectors * kResumeCycles + (far ? kFarSumsCycles : 0);
}

// How a tile's steps, its stores and what comes at its ends add up; every field but these is known.
void PieceModel::add_up(TileCycles& c, const PieceSchedule& s, const TileShape& t) const {
  // Scattered lanes leave the arithmetic nothing to hide behind.
  if (!reduces_) {
    c.start = kTileStartCycles / 4;
    c.total = std::max(c.step, c.stores) + c.scattered + c.start;
    return;
  }
  double ends = c.stores + c.scattered + c.finish;
  double resumed = resumed_cycles(s, c.vectors);
  ends += resumed;
  c.finish += resumed;
  if (t.vector < IteratorId(piece_.parallel_dims)) {
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
  if (waits_) {
    c.start = kTileStartCycles;
    c.lanes = c.vectors * kLaneCombineCycles;
    c.total = c.steps * c.step + ends + c.start + c.lanes;
    return;
  }
  c.lanes = c.vectors * (c.vectors > 1 ? kFreeRowsCycles : kFreeCombineCycles);
  c.total = c.steps * c.step + ends + c.lanes;
}

PieceModel::TileCycles PieceModel::tile_cycles(const PieceSchedule& s, const TileShape& t,
                                               const std::vector<double>& counts, double steps,
                                               bool taps) const {
  TileCycles c;
  c.steps = steps;
  for (double n : counts) c.vectors *= n;
  std::optional<DotForm> form;
  if (t.group > 1) form = dot_form(piece_, contraction_, kernel_.tensors, t.group);
  TileLoads loads = tile_loads(s, t, counts, form, taps);
  c.loads = loads.cycles;
  for (size_t i = piece_.loads.size(); i < accesses_.size(); ++i) {
    TileShape parallel_dims = t;
    if (t.vector >= IteratorId(piece_.parallel_dims)) parallel_dims.vector = {};
    double cycles = access_cycles(accesses_[i], parallel_dims, false);
    (cycles > 2 * kLoadCycles ? c.scattered : c.stores) += c.vectors * cycles;
  }
  c.arithmetic =
      (c.vectors + loads.corrections) * (t.group > 1 ? dot_cycles(form, t.group) : body_) +
      kJoinShare * loads.joins;
  double instructions =
      t.group > 1 ? c.vectors + loads.corrections : c.arithmetic / kOperationCycles;
  c.issue = (instructions + loads.count) * kIssueCycles;
  c.in_turns = kLoadsBeside * std::min(c.arithmetic, c.loads);
  c.step = std::max({c.arithmetic, c.loads, c.issue}) + c.in_turns;
  // Rounds of a fold wait for each other, and so do the folds of a tile's rows.
  double rows = 1;
  for (size_t j = 0; j < counts.size(); ++j) {
    IteratorId u(t.iterators[j]);
    if (u != t.vector && u != t.joined) rows *= counts[j];
  }
  c.rounds = chain_ * rows;
  c.step = std::max(c.step, c.rounds);
  if (reduces_) {
    c.latency = target_.core.fma_cycles / static_cast<double>(t.copies);
    c.loop = kIterationCycles / t.unroll;
    c.step = std::max(c.step, c.latency) + c.loop;
    c.finish = (form && form->flipped ? 2 : 1) * c.vectors * kOperationCycles;
  }
  add_up(c, s, t);
  return c;
}

PieceModel::TileShape PieceModel::tile_of(const PieceSchedule& s) const {
  TileShape t;
  for (const Loop& l : s.tile) {
    if (l.binding == Binding::vector) t.vector = l.iterator;
    size_t u = l.iterator.index();
    if (std::find(t.iterators.begin(), t.iterators.end(), u) == t.iterators.end()) {
      t.iterators.push_back(u);
    }
  }
  if (!s.reduce.empty() && s.reduce.back().binding == Binding::vector) {
    t.vector = s.reduce.back().iterator;
  }
  if (joins_lanes(s)) t.joined = s.tile[s.tile.size() - 2].iterator;
  if (s.tile.size() > 1 && s.tile.back().binding == Binding::vector && !t.joined.valid()) {
    t.turned = s.tile[s.tile.size() - 2].iterator;
  }
  size_t loop = 0;
  t.copies = accumulator_copies(s, piece_, contraction_, target_, loop);
  t.group = dot_group(s);
  for (const Loop& l : s.reduce) {
    if (l.binding == Binding::unroll) t.unroll = 2;
  }
  for (size_t u : t.iterators) {
    int64_t block = piece_.box[u];
    for (const Loop& l : s.outer) {
      if (l.iterator == IteratorId(u)) block = std::min(block, l.step);
    }
    t.blocks.push_back(block);
    if (IteratorId(u) == t.joined) t.rows = block;
  }
  for (const Loop& l : s.tile) {
    bool vectors = l.iterator == t.joined && l.binding == Binding::unroll;
    if (vectors) t.rows = std::min(t.rows, l.step);
  }
  return t;
}

// Loops inside a border's test run without the rows that it leaves out: there are reductions
// besides those of the condition, which names one iterator of the tile alone.
bool PieceModel::repeats_border(const Constraint& c, const TileShape& t) const {
  int64_t named = 0, inside = 1;
  for (size_t u : t.iterators) named += c.form.coefficient(u).is_zero() ? 0 : 1;
  for (size_t r = piece_.parallel_dims; r < piece_.box.size(); ++r) {
    bool settled =
        std::any_of(piece_.constraints.begin(), piece_.constraints.end(),
                    [&](const Constraint& k) { return !k.form.coefficient(r).is_zero(); });
    if (!settled) inside *= piece_.box[r];
  }
  return named == 1 && inside > 1;
}

// Of the tiles along one of its iterators the part that may be at a border of the domain. A loop of
// one whole tile and a remainder, which windows alone fill, knows what is inside: nothing is
// tested.
double PieceModel::at_border(const PieceSchedule& s, const TileShape& t, size_t tiled) const {
  size_t u = t.iterators[tiled];
  int64_t extent = piece_.box[u], block = std::max<int64_t>(t.blocks[tiled], 1);
  bool one = extent / block <= 1;
  bool known =
      taps_only_ && one && std::none_of(s.outer.begin(), s.outer.end(), [&](const Loop& l) {
        bool runs = extent > l.step && (l.binding == Binding::parallel || l.step != block);
        return l.iterator == IteratorId(u) && runs;
      });
  return known ? 0 : std::min(1.0, 2 / static_cast<double>(ceil_div(extent, block)));
}

// Tiles at a border test their points: the first and the last of an unrolled parallel dimension
// that a condition names, every vector of lanes that it masks.
double PieceModel::border_factor(const PieceSchedule& s, const TileShape& t) const {
  double factor = 1;
  for (const Constraint& c : piece_.constraints) {
    for (size_t j = 0; j < t.iterators.size(); ++j) {
      size_t u = t.iterators[j];
      if (c.form.coefficient(u).is_zero()) continue;
      bool masked = IteratorId(u) == t.vector || IteratorId(u) == t.joined;
      double more = masked ? (t.joined.valid() ? kGatheredTile : kMaskedTile) : kTestedTile;
      if (!masked && repeats_border(c, t)) more = kShortenedTile;
      factor += at_border(s, t, j) * more;
    }
  }
  return factor;
}

// The part of the tiles in which each tap that is written out has a test of its own: then rows
// share nothing between taps.
double PieceModel::tested_taps(const PieceSchedule& s, const TileShape& t) const {
  double inside = 1;
  for (size_t j = 0; j < t.iterators.size() && taps_only_; ++j) {
    size_t u = t.iterators[j];
    bool lanes = IteratorId(u) == t.vector || IteratorId(u) == t.joined;
    bool tested = std::any_of(piece_.constraints.begin(), piece_.constraints.end(),
                              [&](auto& c) { return !c.form.coefficient(u).is_zero(); });
    if (tested && !lanes) inside *= 1 - at_border(s, t, j);
  }
  return 1 - inside;
}

// All tiles: full ones and the remainders of each iterator.
double PieceModel::compute_cycles(const PieceSchedule& s, CostTerm* into) const {
  if (uses_tiles(s)) return tiles_cycles(s, into);
  TileShape t = tile_of(s);
  double steps = 1;
  for (size_t u = piece_.parallel_dims; u < piece_.box.size(); ++u) {
    bool vector = IteratorId(u) == t.vector;
    auto extent = static_cast<double>(piece_.box[u]);
    bool dot = t.group > 1 && IteratorId(u) == s.reduce.back().iterator;
    int64_t together = vector ? lanes_ : dot ? t.group : 1;
    steps *= std::ceil(extent / static_cast<double>(together));
  }
  double cycles = cycles_of_steps(s, t, steps / reduction_blocks(s), into);
  double factor = code_factor(t, cycles);
  if (into != nullptr) into->add_if("much code", cycles * (factor - 1) * cycle_ns_);
  return cycles * factor;
}

// Blocks of every reduction that is cut: the sums wait while the others pass by.
double PieceModel::reduction_blocks(const PieceSchedule& s) const {
  double blocks = 1;
  for (size_t u = piece_.parallel_dims; u < piece_.box.size(); ++u) {
    int64_t step = piece_.box[u];
    for (const Loop& l : s.outer) {
      if (l.iterator == IteratorId(u)) step = l.step;
    }
    blocks *= std::ceil(static_cast<double>(piece_.box[u]) / static_cast<double>(step));
  }
  return blocks;
}

// Of tiles that do so many steps of the reduction in each of its blocks.
double PieceModel::cycles_of_steps(const PieceSchedule& s, const TileShape& t, double steps,
                                   CostTerm* into) const {
  double tiles = reduction_blocks(s);
  for (size_t u = 0; u < piece_.parallel_dims; ++u) {
    bool tiled = std::find(t.iterators.begin(), t.iterators.end(), u) != t.iterators.end();
    if (!tiled) tiles *= static_cast<double>(piece_.box[u]);
  }
  double tested = tested_taps(s, t), total = 0;
  if (tested < 1) total += (1 - tested) * all_tiles(s, t, {steps, tiles, true, 1 - tested}, into);
  if (tested > 0) total += tested * all_tiles(s, t, {steps, tiles, false, tested}, into);
  double border = border_factor(s, t);
  if (into != nullptr) into->add_if("tests at borders", total * (border - 1) * cycle_ns_);
  return total * border;
}

// Between two blocks of a reduction sums leave the registers and others come: meanwhile no operand
// is asked for.
double PieceModel::resuming_ns(const PieceSchedule& s) const {
  if (uses_tiles(s) || reduction_blocks(s) <= 1) return 0;
  return cycles_of_steps(s, tile_of(s), 0, nullptr) * cycle_ns_;
}

double PieceModel::all_tiles(const PieceSchedule& s, const TileShape& t, const TileRun& run,
                             CostTerm* into) const {
  double total = 0;
  for (size_t corner = 0; corner < (size_t{1} << t.iterators.size()); ++corner) {
    std::vector<double> counts;
    double number = run.tiles;
    for (size_t j = 0; j < t.iterators.size(); ++j) {
      int64_t extent = piece_.box[t.iterators[j]], block = t.blocks[j];
      bool rest = (corner >> j & 1) != 0;
      int64_t size = rest ? extent % block : block;
      number *= static_cast<double>(rest ? (size > 0 ? 1 : 0) : extent / block);
      counts.push_back(vectors_of(t, t.iterators[j], size));
    }
    if (number <= 0) continue;
    TileCycles c = tile_cycles(s, t, counts, run.steps, run.taps);
    total += number * c.total;
    if (into != nullptr) {
      into->add(tile_term(c, corner == 0 ? "whole tiles" : "remainder tiles",
                          number * run.share * cycle_ns_));
      into->parts.back().facts.emplace_back("tiles", number * run.share);
    }
  }
  return total;
}

// The same tree as in tile_cycles() and add_up(), which have made the figures.
CostTerm PieceModel::tile_term(const TileCycles& c, std::string name, double scale) const {
  double each = c.steps * scale;
  auto leaf = [](const char* what, double ns) { return cost_leaf(what, ns); };
  CostTerm busy = combine("busy", Combine::largest, 1,
                          {leaf("arithmetic", c.arithmetic * each), leaf("loads", c.loads * each),
                           leaf("instructions", c.issue * each)});
  CostTerm step = combine("computing", Combine::sum, 1, {std::move(busy)});
  if (c.in_turns > 0) step.add("loads in turns with arithmetic", c.in_turns * each);
  step.ns = combined(step);
  if (c.rounds > 0 || c.latency > 0) {
    step = combine("computing or waiting", Combine::largest, 1,
                   {std::move(step), leaf("rounds of folds that wait", c.rounds * each),
                    leaf("multiply-adds that wait", c.latency * each)});
  }
  CostTerm steps = combine("steps", Combine::sum, 1, {std::move(step)});
  if (c.loop > 0) steps.add("the loop around them", c.loop * each);
  steps.ns = combined(steps);
  CostTerm stores = leaf("stores", c.stores * scale),
           finish = leaf("finishing sums", c.finish * scale);
  CostTerm all;
  all.name = std::move(name);
  if (c.beside) {
    all.add(combine(
        "steps beside the ends of tiles", Combine::largest, 1,
        {combine("loads and stores", Combine::sum, 1,
                 {leaf("loads", c.loads * each), std::move(stores)}),
         combine("steps and ends", Combine::sum, 1, {std::move(steps), std::move(finish)})}));
  } else if (!reduces_) {
    all.add(
        combine("steps beside stores", Combine::largest, 1, {std::move(steps), std::move(stores)}));
  } else {
    all.add(std::move(steps));
    all.add(std::move(stores));
    if (c.finish > 0) all.add(std::move(finish));
  }
  all.add_if("scattered stores", c.scattered * scale);
  all.add_if("entering and leaving tiles", c.start * scale);
  all.add_if("adding up lanes", c.lanes * scale);
  all.ns = c.total * scale;
  return all;
}

}  // namespace tile
