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

constexpr double kFlipped = 1;  // of flipping bits of a scalar that is then broadcast
constexpr double kScatteredLane = 1.2;
constexpr double kFarLanes = 2;  // more cost of lanes of a window in lines of their own
constexpr int64_t kComponents = 4;
constexpr double kMostPicked = 4;    // registers that lanes pick from
constexpr double kJoinShare = 0.25;  // of the joins of neighbours, what products wait for
constexpr double kIssue = 0.2;       // cycles of any one instruction in the front end
// Of the loads, what the arithmetic does not hide: on a shared machine another thread works on the
// same core, and its instructions take turns with ours.
constexpr double kLoadsBeside = 0.4;
constexpr double kTileStart = 12;    // of entering and leaving a register tile…
constexpr double kShortStart = 4;    // …whose reduction's end the processor foresees…
constexpr double kForeseen = 32;     // …among so many iterations: the next tile begins beside it
constexpr double kResume = 4;        // of a vector of sums that earlier blocks have begun
constexpr double kLaneCombine = 12;  // of adding up the lanes of one vector
// The same where the next row does not wait for the result: one row at a time; several at once.
constexpr double kFreeCombine = 8;
constexpr double kFreeRows = 18;
constexpr double kTestedTile = 0.7;     // more time that a tile takes where its points are tested
constexpr double kShortenedTile = 0.1;  // where its rows are left out instead
constexpr double kGatheredTile = 16;    // where lanes of pairs are, which then cannot share reads
constexpr double kMaskedTile = 0.6;     // where its lanes are

}  // namespace

// The aggregation adds a product.
bool PieceModel::is_fused(const Body& body) const {
  const Node& root = body[body.results[0]];
  return contraction_.aggregation == Aggregation::sum && root.op == Op::mul &&
         root.kind == NodeKind::operation && is_float(root.type);
}

// Lines that a vector of neighbours lies in, on average: rows that are no multiple of a line begin
// anywhere.
double PieceModel::lines_of_vector(const AccessModel& a, int vector) const {
  constexpr auto kLine = static_cast<int64_t>(kCacheLine);
  int64_t apart = kLine, bytes = std::min(lanes_ * a.bytes, kLine);
  for (size_t u = 0; u < a.strides.size(); ++u) {
    bool moves = static_cast<int>(u) != vector && piece_.box[u] > 1;
    if (moves) apart = gcd(apart, std::abs(a.strides[u]) * a.bytes);
  }
  return 1 + static_cast<double>(std::max<int64_t>(bytes - apart, 0)) / kCacheLine;
}

double PieceModel::vector_cycles(const AccessModel& a, int vector, bool packed) const {
  if (vector < 0) return kLoad;
  int64_t stride = a.strides[static_cast<size_t>(vector)];
  auto lanes = static_cast<double>(lanes_);
  if (a.gathers) return lanes * kGatheredLane;
  // Lanes a line or more apart keep as many lines busy.
  if (window_ && std::abs(static_cast<double>(stride)) * a.bytes >= kCacheLine) lanes *= kFarLanes;
  if (a.store) {
    bool together = stride > 1 && stride == static_cast<int64_t>(piece_.stores.size());
    return stride == 1 || together ? 2 * kLoad : lanes * kScatteredLane;
  }
  if (stride == 0 || packed) return kLoad;
  if (stride == 1) return kLoad * lines_of_vector(a, vector);
  // Components of pixels are read together and told apart by shifts or shuffles.
  if (stride > 1 && stride <= kComponents) return 3 * kLoad;
  return lanes * kGatheredLane;
}

double PieceModel::joined_cycles(const AccessModel& a, const JoinedLanes& lanes,
                                 bool packed) const {
  int64_t length = piece_.box[static_cast<size_t>(lanes.last)];
  int64_t inner = std::abs(a.strides[static_cast<size_t>(lanes.last)]);
  int64_t outer = std::abs(a.strides[static_cast<size_t>(lanes.first)]);
  if (packed) {
    outer = outer == 0 ? 0 : inner == 0 ? 1 : length;
    inner = std::min<int64_t>(inner, 1);
  }
  if (inner == 0 && outer == 0) return kLoad;
  bool contiguous = inner == 1 && outer == length;
  auto all = static_cast<double>(lanes_);
  if (a.store) return contiguous ? 2 * kLoad : all * kScatteredLane;
  if (a.gathers) return all * kGatheredLane;
  if (contiguous) return kLoad;
  // Registers that hold what the lanes pick from, often shared by several picks.
  double span = std::ceil(static_cast<double>(outer * (lanes.rows - 1) + inner * (length - 1) + 1) /
                          static_cast<double>(lanes_));
  return span <= kMostPicked ? span * 1.5 * kLoad : all * kGatheredLane;
}

double PieceModel::distinct_part(const AccessModel& a, size_t parallel_dim, int64_t rows,
                                 size_t reduction, int64_t taps) {
  int64_t row = std::abs(a.strides[parallel_dim]), tap = std::abs(a.strides[reduction]);
  if (row == 0 || rows * taps <= 1) return 1;
  // (x, t) and (x + tap, t - row), in units of what both strides are multiples of, are one element.
  int64_t unit = gcd(row, tap);
  int64_t same = std::max<int64_t>(0, rows - tap / unit) * std::max<int64_t>(0, taps - row / unit);
  return 1 - static_cast<double>(same) / static_cast<double>(rows * taps);
}

bool PieceModel::slides(size_t parallel_dim, size_t reduction) const {
  return std::any_of(accesses_.begin(), accesses_.end(), [&](const AccessModel& a) {
    return !a.store && !a.gathers && a.strides[reduction] != 0 &&
           distinct_part(a, parallel_dim, piece_.box[parallel_dim], reduction,
                         piece_.box[reduction]) < 1;
  });
}

// Of the reads of one step those that are made: a window's taps that are written out read what the
// rows of a tile share once.
double PieceModel::shared_part(const PieceSchedule& s, const TileShape& t, const AccessModel& a,
                               const std::vector<double>& counts) const {
  double part = 1;
  for (const Loop& l : s.reduce) {
    if (l.binding != Binding::unroll || l.step != 1) continue;
    for (size_t j = 0; j < t.iterators.size(); ++j) {
      auto u = static_cast<int>(t.iterators[j]);
      if (u == t.vector || u == t.joined) continue;
      auto reduction = static_cast<size_t>(l.iterator);
      part *= distinct_part(a, t.iterators[j], static_cast<int64_t>(counts[j]), reduction,
                            piece_.box[reduction]);
    }
  }
  return part;
}

bool PieceModel::turns(const AccessModel& a, int vector, size_t rows) {
  if (vector < 0 || static_cast<int>(rows) == vector || a.store || a.gathers) return false;
  return a.strides[rows] == 1 && std::abs(a.strides[static_cast<size_t>(vector)]) > kLanesTogether;
}

int64_t PieceModel::transposed_rows(const AccessModel& a, const TileShape& t) {
  for (size_t j = 0; j < t.iterators.size() && t.turned >= 0; ++j) {
    bool unrolled = static_cast<int>(t.iterators[j]) == t.turned;
    if (unrolled && turns(a, t.vector, t.iterators[j])) return t.blocks[j];
  }
  return 1;
}

// A vector's part of reading a block's rows, and of turning them.
double PieceModel::transpose_cycles(int64_t rows) const {
  auto lanes = static_cast<double>(lanes_);
  return lanes * kLoad / static_cast<double>(rows) + std::log2(lanes) * kOperation;
}

double PieceModel::access_cycles(const AccessModel& a, const TileShape& t, bool packed) const {
  if (int64_t rows = transposed_rows(a, t); rows > 1 && !packed) return transpose_cycles(rows);
  if (t.joined < 0) return vector_cycles(a, t.vector, packed);
  return joined_cycles(a, {t.joined, t.vector, t.rows}, packed);
}

// Vectors, or values of an iterator that has no lanes.
double PieceModel::vectors_of(const TileShape& t, size_t iterator, int64_t size) const {
  bool joined = static_cast<int>(iterator) == t.joined;
  if (joined) size *= piece_.box[static_cast<size_t>(t.vector)];
  bool vector = static_cast<int>(iterator) == t.vector;
  return static_cast<double>(vector || joined ? ceil_div(size, lanes_) : size);
}

// Cycles of a vector of dots.
double PieceModel::dot_cycles(const std::optional<DotForm>& form, int64_t group) const {
  double rate = form ? dot_per_ns(*form, target_) : 0;
  if (rate <= 0) return body_ * static_cast<double>(2 * group);  // step by step
  return kOperation * target_.fma_per_ns * static_cast<double>(group) / rate;
}

bool PieceModel::is_packed(const PieceSchedule& s, size_t load) {
  return std::any_of(s.packings.begin(), s.packings.end(),
                     [&](const Packing& p) { return p.load == static_cast<int>(load); });
}

// Cycles of one vector of groups of neighbours; `cycles`: of a vector of elements. Unless they are
// packed, or one scalar that memory has so, they are joined by a shift and an `or` each.
double PieceModel::group_cycles(const PieceSchedule& s, const TileShape& t, size_t load,
                                double cycles) const {
  const AccessModel& a = accesses_[load];
  int64_t stride = a.strides[static_cast<size_t>(s.reduce.back().iterator)];
  bool scalar = t.vector < 0 || a.strides[static_cast<size_t>(t.vector)] == 0;
  if (is_packed(s, load) || (scalar && stride == 1)) return cycles;
  auto group = static_cast<double>(t.group);
  return group * cycles + 3 * (group - 1) * kOperation;
}

// Cycles of one register tile in which the tile's iterators have `counts` iterations (vectors for
// the vector iterator).
double PieceModel::tile_cycles(const PieceSchedule& s, const TileShape& t,
                               const std::vector<double>& counts, double steps, bool taps) const {
  double vectors = 1;
  for (double n : counts) vectors *= n;
  std::optional<DotForm> form;
  if (t.group > 1) form = dot_form(piece_, contraction_, kernel_.tensors, t.group);
  bool flips = form && form->flipped;
  double loads = 0, load_count = 0, joins = 0, corrections = 0;
  for (size_t i = 0; i < piece_.loads.size(); ++i) {
    double n = 1;
    for (size_t j = 0; j < t.iterators.size(); ++j) {
      bool depends = accesses_[i].strides[t.iterators[j]] != 0 || accesses_[i].gathers;
      if (depends) n *= counts[j];
    }
    bool packed = std::any_of(s.packings.begin(), s.packings.end(), [&](const Packing& p) {
      int last = p.order[packed_loops(p, s) - 1].iterator;
      return p.load == static_cast<int>(i) && (last == t.vector || last == t.joined);
    });
    n *= accesses_[i].times;
    if (taps_only_ && taps) n *= shared_part(s, t, accesses_[i], counts);
    double cycles = access_cycles(accesses_[i], t, packed);
    if (t.group > 1) {
      double joined = group_cycles(s, t, i, cycles);
      if (joined > cycles) joins += n * (joined - static_cast<double>(t.group) * cycles);
      cycles = joined;
    }
    if (flips && form->flipped == i && !is_packed(s, i)) cycles += kFlipped;
    if (flips && form->other() == i) corrections = n;
    loads += n * (cycles + (t.group > 1 ? 0 : accesses_[i].conversion));
    load_count += n;
  }
  double stores = 0, scattered = 0;
  for (size_t i = piece_.loads.size(); i < accesses_.size(); ++i) {
    TileShape parallel_dims = t;
    if (t.vector >= static_cast<int>(piece_.parallel_dims)) parallel_dims.vector = -1;
    double cycles = access_cycles(accesses_[i], parallel_dims, false);
    (cycles > 2 * kLoad ? scattered : stores) += vectors * cycles;
  }
  double work = (vectors + corrections) * (t.group > 1 ? dot_cycles(form, t.group) : body_) +
                kJoinShare * joins;
  double instructions = t.group > 1 ? vectors + corrections : work / kOperation;
  double step = std::max({work, loads, (instructions + load_count) * kIssue}) +
                kLoadsBeside * std::min(work, loads);
  // Rounds of a fold wait for each other, and so do the folds of a tile's rows.
  double rows = 1;
  for (size_t j = 0; j < counts.size(); ++j) {
    auto u = static_cast<int>(t.iterators[j]);
    if (u != t.vector && u != t.joined) rows *= counts[j];
  }
  step = std::max(step, chain_ * rows);
  // Scattered lanes leave the arithmetic nothing to hide behind.
  if (!reduces_) return std::max(step, stores) + scattered + kTileStart / 4;
  step = std::max(step, kFmaLatency / static_cast<double>(t.copies)) + kIteration / t.unroll;
  double ends = stores + scattered + (flips ? 2 : 1) * vectors * kOperation;
  auto cut = std::find_if(s.outer.rbegin(), s.outer.rend(), [&](const Loop& l) {
    return l.iterator >= static_cast<int>(piece_.parallel_dims);
  });
  if (cut != s.outer.rend()) {
    // What is touched between two blocks of the reduction.
    auto block = static_cast<size_t>(s.outer.rend() - cut);
    LoopRanges loops(piece_, s);
    double touched = 0;
    for (const AccessModel& a : accesses_) touched += footprint(a, loops.at(block));
    bool far = touched > kUsableCache * static_cast<double>(target_.l2_bytes);
    ends += vectors * kResume + (far ? kFarSums : 0);
  }
  if (t.vector < static_cast<int>(piece_.parallel_dims)) {
    if (steps > kForeseen || cut != s.outer.rend()) return steps * step + ends + kTileStart;
    double others = std::max(steps * loads + stores, ends - stores - scattered + steps * step);
    return others + scattered + kShortStart;
  }
  if (waits_) return steps * step + ends + kTileStart + vectors * kLaneCombine;
  return steps * step + ends + vectors * (vectors > 1 ? kFreeRows : kFreeCombine);
}

PieceModel::TileShape PieceModel::tile_of(const PieceSchedule& s) const {
  TileShape t;
  for (const Loop& l : s.tile) {
    if (l.binding == Binding::vector) t.vector = l.iterator;
    auto u = static_cast<size_t>(l.iterator);
    if (std::find(t.iterators.begin(), t.iterators.end(), u) == t.iterators.end()) {
      t.iterators.push_back(u);
    }
  }
  if (!s.reduce.empty() && s.reduce.back().binding == Binding::vector) {
    t.vector = s.reduce.back().iterator;
  }
  if (joins_lanes(s)) t.joined = s.tile[s.tile.size() - 2].iterator;
  if (s.tile.size() > 1 && s.tile.back().binding == Binding::vector && t.joined < 0) {
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
      if (l.iterator == static_cast<int>(u)) block = std::min(block, l.step);
    }
    t.blocks.push_back(block);
    if (static_cast<int>(u) == t.joined) t.rows = block;
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
        return l.iterator == static_cast<int>(u) && runs;
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
      bool masked = static_cast<int>(u) == t.vector || static_cast<int>(u) == t.joined;
      double more = masked ? (t.joined >= 0 ? kGatheredTile : kMaskedTile) : kTestedTile;
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
    bool lanes = static_cast<int>(u) == t.vector || static_cast<int>(u) == t.joined;
    bool tested = std::any_of(piece_.constraints.begin(), piece_.constraints.end(),
                              [&](auto& c) { return !c.form.coefficient(u).is_zero(); });
    if (tested && !lanes) inside *= 1 - at_border(s, t, j);
  }
  return 1 - inside;
}

// All tiles: full ones and the remainders of each iterator.
double PieceModel::compute_cycles(const PieceSchedule& s) const {
  if (uses_tiles(s)) return tiles_cycles(s);
  TileShape t = tile_of(s);
  double steps = 1;
  for (size_t u = piece_.parallel_dims; u < piece_.box.size(); ++u) {
    bool vector = static_cast<int>(u) == t.vector;
    auto extent = static_cast<double>(piece_.box[u]);
    bool dot = t.group > 1 && static_cast<int>(u) == s.reduce.back().iterator;
    int64_t together = vector ? lanes_ : dot ? t.group : 1;
    steps *= std::ceil(extent / static_cast<double>(together));
  }
  double cycles = cycles_of_steps(s, t, steps / reduction_blocks(s));
  return cycles * code_factor(t, cycles);
}

// Blocks of every reduction that is cut: the sums wait while the others pass by.
double PieceModel::reduction_blocks(const PieceSchedule& s) const {
  double blocks = 1;
  for (size_t u = piece_.parallel_dims; u < piece_.box.size(); ++u) {
    int64_t step = piece_.box[u];
    for (const Loop& l : s.outer) {
      if (l.iterator == static_cast<int>(u)) step = l.step;
    }
    blocks *= std::ceil(static_cast<double>(piece_.box[u]) / static_cast<double>(step));
  }
  return blocks;
}

// Of tiles that do so many steps of the reduction in each of its blocks.
double PieceModel::cycles_of_steps(const PieceSchedule& s, const TileShape& t, double steps) const {
  double tiles = reduction_blocks(s);
  for (size_t u = 0; u < piece_.parallel_dims; ++u) {
    bool tiled = std::find(t.iterators.begin(), t.iterators.end(), u) != t.iterators.end();
    if (!tiled) tiles *= static_cast<double>(piece_.box[u]);
  }
  double tested = tested_taps(s, t), total = 0;
  if (tested < 1) total += (1 - tested) * all_tiles(s, t, steps, tiles, true);
  if (tested > 0) total += tested * all_tiles(s, t, steps, tiles, false);
  return total * border_factor(s, t);
}

// Between two blocks of a reduction sums leave the registers and others come: meanwhile no operand
// is asked for.
double PieceModel::resuming_ns(const PieceSchedule& s) const {
  if (uses_tiles(s) || reduction_blocks(s) <= 1) return 0;
  return cycles_of_steps(s, tile_of(s), 0) * cycle_ns_;
}

double PieceModel::all_tiles(const PieceSchedule& s, const TileShape& t, double steps, double tiles,
                             bool taps) const {
  double total = 0;
  for (size_t corner = 0; corner < (size_t{1} << t.iterators.size()); ++corner) {
    std::vector<double> counts;
    double number = tiles;
    for (size_t j = 0; j < t.iterators.size(); ++j) {
      int64_t extent = piece_.box[t.iterators[j]], block = t.blocks[j];
      bool rest = (corner >> j & 1) != 0;
      int64_t size = rest ? extent % block : block;
      number *= static_cast<double>(rest ? (size > 0 ? 1 : 0) : extent / block);
      counts.push_back(vectors_of(t, t.iterators[j], size));
    }
    if (number > 0) total += number * tile_cycles(s, t, counts, steps, taps);
  }
  return total;
}

}  // namespace tile
