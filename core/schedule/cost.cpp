// The analytic model: cycles of the register tile, copies, threads, and all parts together (traffic
// between the levels of memory: cost_memory.cpp). Every constant is a property of machines of this
// kind or comes from the Target.
#include "core/schedule/cost.h"

#include <algorithm>
#include <cmath>

#include "core/schedule/dots.h"
#include "core/schedule/gpu_forms.h"
#include "core/schedule/rows.h"
#include "core/schedule/window.h"

namespace tile {
namespace {

constexpr double kFmaLatency = 4;       // cycles
constexpr double kOperation = 0.5;      // cycles of a simple vector operation: two a cycle
constexpr double kLoad = 0.5;           // of a contiguous or broadcast vector load
constexpr double kFlipped = 1;          // of flipping bits of a scalar that is then broadcast
constexpr double kGatheredLane = 0.62;  // of one lane of a gather
constexpr double kScatteredLane = 1.2;
constexpr double kFarBytes = 4096;  // of a step along a carried owner: into another page
constexpr double kFarStep = 4;      // nanoseconds of such a step, for each tensor
constexpr double kFarLanes = 2;     // more cost of lanes of a window in lines of their own
constexpr int64_t kComponents = 4;
constexpr double kMostPicked = 4;    // registers that lanes pick from
constexpr double kJoinShare = 0.25;  // of the joins of neighbours, what products wait for
constexpr double kIssue = 0.2;       // cycles of any one instruction in the front end
constexpr double kIteration = 0.4;   // of a serial loop around a tile, mostly hidden
constexpr double kTileStart = 12;    // of entering and leaving a register tile
constexpr double kResume = 2;        // of a vector of sums that earlier blocks have begun
constexpr double kFarSums = 300;     // of waiting for a tile's sums from behind the second cache
constexpr double kLaneCombine = 12;  // of adding up the lanes of one vector
// The same where the next row does not wait for the result: one row at a time; several at once.
constexpr double kFreeCombine = 8;
constexpr double kFreeRows = 18;
constexpr double kSecondLevelWays = 16;
constexpr double kTestedTile = 0.7;     // more time that a tile takes where its points are tested
constexpr double kShortenedTile = 0.1;  // where its rows are left out instead
constexpr double kGatheredTile = 16;    // where lanes of pairs are, which then cannot share reads
constexpr double kMaskedTile = 0.6;     // where its lanes are
constexpr int64_t kLongestWindow = 16;  // of those whose taps are worth writing out
constexpr double kOverlap = 0.15;       // of the smaller costs that the largest does not hide

double operation_cycles(const Node& node) {
  switch (node.op) {
    case Op::div:
    case Op::sqrt:
    case Op::rsqrt:
    case Op::reciprocal:
      return 8;
    case Op::exp:
    case Op::exp2:
    case Op::expm1:
    case Op::sigmoid:
    case Op::log:
    case Op::log1p:
    case Op::log2:
      return 9;
    case Op::tanh:
    case Op::erf:
    case Op::gelu:
    case Op::softplus:
      return 14;
    case Op::pow:
    case Op::mod:
    case Op::sin:
    case Op::cos:
    case Op::tan:
      return 24;
    default:
      return info(node.op).rule == TypeRule::floating ? 20 : kOperation;
  }
}

// How many neighbouring elements each point stores; 1: it is not so.
int components(const Piece& piece) {
  for (size_t o = 0; o < piece.stores.size(); ++o) {
    const Access& store = piece.stores[o];
    bool next = store.tensor == piece.stores[0].tensor && !store.index.empty() &&
                store.index.back().affine == constant_affine(static_cast<int64_t>(o));
    if (!next) return 1;
  }
  return static_cast<int>(piece.stores.size());
}

// Nanoseconds of bringing a copied operand's elements. A line comes as often as its elements are
// read where the loops between neighbours touch more lines than a cache keeps.
double source_ns(const Packing& p, const PieceModel::AccessModel& a, std::vector<int64_t> range,
                 const Target& target) {
  std::vector<double> trips;
  double elements = 1;
  for (const Loop& l : p.order) {
    int64_t& n = range[static_cast<size_t>(l.unknown)];
    trips.push_back(static_cast<double>(ceil_div(n, l.step)));
    elements *= trips.back();
    n = std::min(n, l.step);
  }
  double lines = kCacheLine, again = 1;
  for (size_t i = p.order.size(); i-- > 0;) {
    const Loop& l = p.order[i];
    auto stride = static_cast<double>(std::abs(a.strides[static_cast<size_t>(l.unknown)]));
    double move = stride * static_cast<double>(l.step) * a.bytes;
    if (move > 0 && move < kCacheLine && i + 1 < p.order.size() && trips[i] > 1) {
      again = std::min(trips[i], kCacheLine / move);
      break;
    }
    if (move >= kCacheLine) lines *= trips[i];
  }
  double bytes = elements * a.bytes;
  if (lines > kUsableCache * static_cast<double>(target.l2_bytes)) {
    return again * bytes / target.l3_bytes_per_ns;
  }
  double near = 0;
  if (lines > kUsableCache * static_cast<double>(target.l1_bytes)) {
    near = again * bytes / target.l2_bytes_per_ns;
  }
  return std::max(near, bytes / target.l3_bytes_per_ns);
}

}  // namespace

PieceModel::PieceModel(const Piece& piece, const Contraction& c, const Kernel& kernel,
                       const Target& target)
    : piece_(piece), contraction_(c), kernel_(kernel), target_(target) {
  BodyFacts facts = body_facts(piece, operation_cycles);
  for (size_t i = 0; i < piece.loads.size(); ++i) {
    accesses_.push_back(access_model(piece.loads[i], kernel, &facts.loads[i]));
  }
  for (const Access& a : piece.stores) accesses_.push_back(access_model(a, kernel, nullptr));
  reduces_ = piece.owners < piece.box.size();
  int bits = std::max(facts.bits, reduces_ ? bit_width(c.accumulator) : 8);
  for (const AccessModel& a : accesses_) {
    if (!reduces_ && !a.fixed) bits = std::max(bits, a.bytes * 8);
  }
  // The components of a pixel are computed in one vector.
  if (!reduces_) bits = std::max(bits, std::min(32, bits * components(piece)));
  lanes_ = std::max(1, target.vector_bits / bits);
  for (size_t i = 0; i < piece.loads.size(); ++i) {
    // A register tile converts an element once, however often it multiplies it.
    if (reduces_) accesses_[i].conversion = facts.loads[i].conversion;
    if (!reduces_) facts.cycles += facts.loads[i].conversion;
  }
  auto additions = static_cast<double>(piece.body.results.size()) - (is_fused(piece.body) ? 1 : 0);
  body_ = facts.cycles + (reduces_ ? additions * kOperation : 0);
  chain_ = facts.chain;
  window_ = window_form(piece, c).has_value();
  taps_only_ = reduces_;
  for (size_t r = piece.owners; r < piece.box.size(); ++r) {
    bool tap = piece.box[r] == 1;
    for (size_t u = 0; u < piece.owners && piece.box[r] <= kLongestWindow; ++u) {
      tap = tap || (piece.box[r] <= piece.box[u] && slides(u, r));
    }
    taps_only_ = taps_only_ && tap;
  }
  waits_ = row_loops(kernel) > 0;
  round_ = reduces_ ? body_ : facts.round;
  cycle_ns_ = 2.0 * target.vector_bits / 32 / target.fma_per_ns;
}

// `load`: what the body says of it; null for a store.
PieceModel::AccessModel PieceModel::access_model(const Access& access, const Kernel& kernel,
                                                 const BodyFacts::Load* load) const {
  const BoundTensor& t = kernel.tensors[static_cast<size_t>(access.tensor)];
  AccessModel m;
  m.access = &access;
  m.shape = t.shape;
  m.bytes = static_cast<int>(byte_size(t.type));
  m.store = load == nullptr;
  if (load != nullptr) m.times = std::max(1.0, load->times);
  if (load != nullptr) m.moves = load->moves;
  m.moves.resize(t.shape.size());
  m.strides.assign(piece_.box.size(), 0);
  int64_t stride = 1;
  for (size_t d = t.shape.size(); d-- > 0;) {
    const Index& index = access.index[d];
    m.gathers = m.gathers || (index.value >= 0 && !m.moves[d]);
    for (size_t u = 0; index.value >= 0 && m.moves[d] && u < m.strides.size(); ++u) {
      m.strides[u] += (*m.moves[d])[u] * stride;
      m.fixed = m.fixed && (*m.moves[d])[u] == 0;
    }
    for (size_t u = 0; u < index.affine.coefficients.size() && index.value < 0; ++u) {
      const Rational& factor = index.affine.coefficients[u];
      if (factor.is_zero()) continue;
      m.strides[u] += factor.floor() * stride;
      m.fixed = false;
    }
    stride *= std::max<int64_t>(t.shape[d], 1);
  }
  return m;
}

// The aggregation adds a product.
bool PieceModel::is_fused(const Body& body) const {
  const Node& root = body[body.results[0]];
  return contraction_.aggregation == Aggregation::sum && root.op == Op::mul &&
         root.kind == NodeKind::operation && is_float(root.type);
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
  if (stride == 0 || stride == 1 || packed) return kLoad;
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

double PieceModel::distinct_part(const AccessModel& a, size_t owner, int64_t rows, size_t reduction,
                                 int64_t taps) {
  int64_t row = std::abs(a.strides[owner]), tap = std::abs(a.strides[reduction]);
  if (row == 0 || rows * taps <= 1) return 1;
  // (x, t) and (x + tap, t - row), in units of what both strides are multiples of, are one element.
  int64_t unit = gcd(row, tap);
  int64_t same = std::max<int64_t>(0, rows - tap / unit) * std::max<int64_t>(0, taps - row / unit);
  return 1 - static_cast<double>(same) / static_cast<double>(rows * taps);
}

bool PieceModel::slides(size_t owner, size_t reduction) const {
  return std::any_of(accesses_.begin(), accesses_.end(), [&](const AccessModel& a) {
    return !a.store && !a.gathers && a.strides[reduction] != 0 &&
           distinct_part(a, owner, piece_.box[owner], reduction, piece_.box[reduction]) < 1;
  });
}

// Of the reads of one step those that are made: a window's taps that are written out read what the
// rows of a tile share once.
double PieceModel::shared_part(const PieceSchedule& s, const TileShape& t, const AccessModel& a,
                               const std::vector<double>& counts) const {
  double part = 1;
  for (const Loop& l : s.reduce) {
    if (l.binding != Binding::unroll || l.step != 1) continue;
    for (size_t j = 0; j < t.unknowns.size(); ++j) {
      auto u = static_cast<int>(t.unknowns[j]);
      if (u == t.vector || u == t.joined) continue;
      auto reduction = static_cast<size_t>(l.unknown);
      part *= distinct_part(a, t.unknowns[j], static_cast<int64_t>(counts[j]), reduction,
                            piece_.box[reduction]);
    }
  }
  return part;
}

double PieceModel::access_cycles(const AccessModel& a, const TileShape& t, bool packed) const {
  if (t.joined < 0) return vector_cycles(a, t.vector, packed);
  return joined_cycles(a, {t.joined, t.vector, t.rows}, packed);
}

// Vectors, or values of an unknown that has no lanes.
double PieceModel::vectors_of(const TileShape& t, size_t unknown, int64_t size) const {
  bool joined = static_cast<int>(unknown) == t.joined;
  if (joined) size *= piece_.box[static_cast<size_t>(t.vector)];
  bool vector = static_cast<int>(unknown) == t.vector;
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
  int64_t stride = a.strides[static_cast<size_t>(s.reduce.back().unknown)];
  bool scalar = t.vector < 0 || a.strides[static_cast<size_t>(t.vector)] == 0;
  if (is_packed(s, load) || (scalar && stride == 1)) return cycles;
  auto group = static_cast<double>(t.group);
  return group * cycles + 3 * (group - 1) * kOperation;
}

// Cycles of one register tile in which the tile's unknowns have `counts` iterations (vectors for
// the vector unknown).
double PieceModel::tile_cycles(const PieceSchedule& s, const TileShape& t,
                               const std::vector<double>& counts, double steps) const {
  double vectors = 1;
  for (double n : counts) vectors *= n;
  std::optional<DotForm> form;
  if (t.group > 1) form = dot_form(piece_, contraction_, kernel_.tensors, t.group);
  bool flips = form && form->flipped;
  double loads = 0, load_count = 0, joins = 0, corrections = 0;
  for (size_t i = 0; i < piece_.loads.size(); ++i) {
    double n = 1;
    for (size_t j = 0; j < t.unknowns.size(); ++j) {
      bool depends = accesses_[i].strides[t.unknowns[j]] != 0 || accesses_[i].gathers;
      if (depends) n *= counts[j];
    }
    bool packed = std::any_of(s.packings.begin(), s.packings.end(), [&](const Packing& p) {
      int last = p.order[packed_loops(p, s) - 1].unknown;
      return p.load == static_cast<int>(i) && (last == t.vector || last == t.joined);
    });
    n *= accesses_[i].times;
    if (taps_only_) n *= shared_part(s, t, accesses_[i], counts);
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
    TileShape owners = t;
    if (t.vector >= static_cast<int>(piece_.owners)) owners.vector = -1;
    double cycles = access_cycles(accesses_[i], owners, false);
    (cycles > 2 * kLoad ? scattered : stores) += vectors * cycles;
  }
  double work = (vectors + corrections) * (t.group > 1 ? dot_cycles(form, t.group) : body_) +
                kJoinShare * joins;
  double instructions = t.group > 1 ? vectors + corrections : work / kOperation;
  double step = std::max({work, loads, (instructions + load_count) * kIssue});
  // Rounds of a fold wait for each other, and so do the folds of a tile's rows.
  double rows = 1;
  for (size_t j = 0; j < counts.size(); ++j) {
    auto u = static_cast<int>(t.unknowns[j]);
    if (u != t.vector && u != t.joined) rows *= counts[j];
  }
  step = std::max(step, chain_ * rows);
  // Scattered lanes leave the arithmetic nothing to hide behind.
  if (!reduces_) return std::max(step, stores) + scattered + kTileStart / 4;
  step = std::max(step, kFmaLatency / static_cast<double>(t.copies)) + kIteration / t.unroll;
  double ends = stores + scattered + (flips ? 2 : 1) * vectors * kOperation;
  auto cut = std::find_if(s.outer.rbegin(), s.outer.rend(), [&](const Loop& l) {
    return l.unknown >= static_cast<int>(piece_.owners);
  });
  if (cut != s.outer.rend()) {
    // What is touched between two blocks of the reduction.
    auto block = static_cast<size_t>(s.outer.rend() - cut);
    std::vector<int64_t> range = loop_ranges(s).ranges[block];
    double touched = 0;
    for (const AccessModel& a : accesses_) touched += footprint(a, range);
    bool far = touched > kUsableCache * static_cast<double>(target_.l2_bytes);
    ends += vectors * kResume + (far ? kFarSums : 0);
  }
  if (t.vector < static_cast<int>(piece_.owners)) return steps * step + ends + kTileStart;
  if (waits_) return steps * step + ends + kTileStart + vectors * kLaneCombine;
  return steps * step + ends + vectors * (vectors > 1 ? kFreeRows : kFreeCombine);
}

PieceModel::TileShape PieceModel::tile_of(const PieceSchedule& s) const {
  TileShape t;
  for (const Loop& l : s.tile) {
    if (l.binding == Binding::vector) t.vector = l.unknown;
    auto u = static_cast<size_t>(l.unknown);
    if (std::find(t.unknowns.begin(), t.unknowns.end(), u) == t.unknowns.end()) {
      t.unknowns.push_back(u);
    }
  }
  if (!s.reduce.empty() && s.reduce.back().binding == Binding::vector) {
    t.vector = s.reduce.back().unknown;
  }
  if (joins_lanes(s)) t.joined = s.tile[s.tile.size() - 2].unknown;
  size_t loop = 0;
  t.copies = accumulator_copies(s, piece_, contraction_, target_, loop);
  t.group = dot_group(s);
  for (const Loop& l : s.reduce) {
    if (l.binding == Binding::unroll) t.unroll = 2;
  }
  for (size_t u : t.unknowns) {
    int64_t block = piece_.box[u];
    for (const Loop& l : s.outer) {
      if (l.unknown == static_cast<int>(u)) block = std::min(block, l.step);
    }
    t.blocks.push_back(block);
    if (static_cast<int>(u) == t.joined) t.rows = block;
  }
  for (const Loop& l : s.tile) {
    bool vectors = l.unknown == t.joined && l.binding == Binding::unroll;
    if (vectors) t.rows = std::min(t.rows, l.step);
  }
  return t;
}

// Loops inside a border's test run without the rows that it leaves out: there are reductions
// besides those of the condition, which names one unknown of the tile alone.
bool PieceModel::repeats_border(const Constraint& c, const TileShape& t) const {
  int64_t named = 0, inside = 1;
  for (size_t u : t.unknowns) named += c.form.coefficient(u).is_zero() ? 0 : 1;
  for (size_t r = piece_.owners; r < piece_.box.size(); ++r) {
    bool settled =
        std::any_of(piece_.constraints.begin(), piece_.constraints.end(),
                    [&](const Constraint& k) { return !k.form.coefficient(r).is_zero(); });
    if (!settled) inside *= piece_.box[r];
  }
  return named == 1 && inside > 1;
}

// Tiles at a border of the domain test their points: the first and the last of an unrolled owner
// that a condition names, every vector of lanes that it masks.
double PieceModel::border_factor(const TileShape& t) const {
  double factor = 1;
  for (const Constraint& c : piece_.constraints) {
    for (size_t j = 0; j < t.unknowns.size(); ++j) {
      size_t u = t.unknowns[j];
      if (c.form.coefficient(u).is_zero()) continue;
      double tiles = std::ceil(static_cast<double>(piece_.box[u]) /
                               static_cast<double>(std::max<int64_t>(t.blocks[j], 1)));
      bool masked = static_cast<int>(u) == t.vector || static_cast<int>(u) == t.joined;
      double more = masked ? (t.joined >= 0 ? kGatheredTile : kMaskedTile) : kTestedTile;
      if (!masked && repeats_border(c, t)) more = kShortenedTile;
      factor += std::min(1.0, 2 / tiles) * more;
    }
  }
  return factor;
}

// All tiles: full ones and the remainders of each unknown.
double PieceModel::compute_cycles(const PieceSchedule& s) const {
  TileShape t = tile_of(s);
  double steps = 1, tiles = 1;
  for (size_t u = piece_.owners; u < piece_.box.size(); ++u) {
    bool vector = static_cast<int>(u) == t.vector;
    auto extent = static_cast<double>(piece_.box[u]);
    bool dot = t.group > 1 && static_cast<int>(u) == s.reduce.back().unknown;
    int64_t together = vector ? lanes_ : dot ? t.group : 1;
    steps *= std::ceil(extent / static_cast<double>(together));
  }
  // Blocks of every reduction that is cut: the sums wait while the others pass by.
  double blocks = 1;
  for (size_t u = piece_.owners; u < piece_.box.size(); ++u) {
    int64_t step = piece_.box[u];
    for (const Loop& l : s.outer) {
      if (l.unknown == static_cast<int>(u)) step = l.step;
    }
    blocks *= std::ceil(static_cast<double>(piece_.box[u]) / static_cast<double>(step));
  }
  steps /= blocks;
  for (size_t u = 0; u < piece_.owners; ++u) {
    bool tiled = std::find(t.unknowns.begin(), t.unknowns.end(), u) != t.unknowns.end();
    if (!tiled) tiles *= static_cast<double>(piece_.box[u]);
  }
  double total = 0;
  for (size_t corner = 0; corner < (size_t{1} << t.unknowns.size()); ++corner) {
    std::vector<double> counts;
    double number = tiles * blocks;
    for (size_t j = 0; j < t.unknowns.size(); ++j) {
      int64_t extent = piece_.box[t.unknowns[j]], block = t.blocks[j];
      bool rest = (corner >> j & 1) != 0;
      int64_t size = rest ? extent % block : block;
      number *= static_cast<double>(rest ? (size > 0 ? 1 : 0) : extent / block);
      counts.push_back(vectors_of(t, t.unknowns[j], size));
    }
    if (number > 0) total += number * tile_cycles(s, t, counts, steps);
  }
  return total * border_factor(t);
}

double PieceModel::packing_ns(const PieceSchedule& s) const {
  double total = 0;
  for (const Packing& p : s.packings) {
    const AccessModel& a = accesses_[static_cast<size_t>(p.load)];
    std::vector<int64_t> range = piece_.box;
    double times = 1;
    for (int i = 0; i < p.level; ++i) {
      const Loop& l = s.outer[static_cast<size_t>(i)];
      int64_t& r = range[static_cast<size_t>(l.unknown)];
      times *= static_cast<double>(ceil_div(r, l.step));
      r = std::min(r, l.step);
    }
    double bytes = packed_bytes(a, range);
    int64_t stride = a.strides[static_cast<size_t>(p.order[packed_loops(p, s) - 1].unknown)];
    auto lanes = static_cast<double>(lanes_);
    double cycles = stride == 1 ? 3 : lanes * kGatheredLane + 2;
    double moved = source_ns(p, a, range, target_) + copy_ns(bytes);
    total += times * std::max(bytes / a.bytes / lanes * cycles * cycle_ns_, moved);
  }
  return total;
}

// Writing a copy to where it stays. What leaves the second cache is fetched before it is written,
// and written back.
double PieceModel::copy_ns(double bytes) const {
  auto fits = [&](int64_t cache) { return bytes <= kUsableCache * static_cast<double>(cache); };
  if (fits(target_.l2_bytes)) return bytes / target_.l2_bytes_per_ns;
  return 2 * bytes / (fits(target_.l3_bytes) ? target_.l3_bytes_per_ns : target_.dram_bytes_per_ns);
}

// One pass over the cells in order: an addition waits for the one before, as many at a time as the
// tile has accumulators.
double PieceModel::carried_ns(const PieceSchedule& s) const {
  TileShape t = tile_of(s);
  double cells = 1, bytes = 0, vectors = 1;
  for (size_t u = 0; u < piece_.owners; ++u) cells *= static_cast<double>(piece_.box[u]);
  for (size_t j = 0; j < t.unknowns.size(); ++j) {
    bool vector = static_cast<int>(t.unknowns[j]) == t.vector;
    int64_t block = std::min(t.blocks[j], piece_.box[t.unknowns[j]]);
    cells /= static_cast<double>(block);
    vectors *= static_cast<double>(vector ? ceil_div(block, lanes_) : block);
  }
  for (const AccessModel& a : accesses_) bytes += footprint(a, piece_.box);
  double step = std::max(kFmaLatency, vectors * (body_ + 3 * kLoad)) + kIteration;
  if (window_) {
    // Each value is computed twice and joined three times.
    double reads = 0;
    for (const AccessModel& a : accesses_) reads += vector_cycles(a, t.vector, false);
    step = vectors * (2 * round_ + 2 * reads + 3 * kOperation + 4 * kLoad) + 3 * kIteration;
    step = std::max(2 * kFmaLatency, step);
  }
  if (t.vector >= 0 && t.vector == s.carried) step = running_cycles(t, vectors) + kIteration;
  if (t.vector >= 0 && t.vector == s.carried && window_) {
    // The ends and the beginnings of blocks; vectors are not full at a block's end.
    auto length = static_cast<double>(piece_.box[piece_.owners]);
    auto lanes = static_cast<double>(lanes_);
    double wasted = std::ceil(length / lanes) * lanes / length;
    step = 2 * wasted * (step + vectors * (4 * kOperation + 2 * kLoad)) + kIteration;
  }
  double resident = static_cast<double>(target_.l3_bytes) * kUsableCache;
  double rate = bytes > resident ? target_.dram_bytes_per_ns : target_.l3_bytes_per_ns;
  double far = bytes > static_cast<double>(target_.l2_bytes) ? far_steps_ns(s.carried) : 0;
  return std::max(cells * (step * cycle_ns_ + refetch_ns(t)), bytes / rate + cells * far);
}

// Of one step along a carried owner whose cells are pages apart: the first line of each row there,
// where no prefetcher has gone ahead.
double PieceModel::far_steps_ns(int carried) const {
  double rows = 0;
  for (const AccessModel& a : accesses_) {
    size_t moved = a.store ? static_cast<size_t>(carried) : piece_.owners;
    if (moved >= a.strides.size()) continue;  // a window of run-time length
    rows += std::abs(static_cast<double>(a.strides[moved])) * a.bytes >= kFarBytes ? 1 : 0;
  }
  return rows * kFarStep;
}

// Of the vectors of a tile whose lanes are a carried owner's cells: sums within each, by shuffles
// that double their distance, the sum so far put on every lane and added, and one addition for each
// that waits for the one before.
double PieceModel::running_cycles(const TileShape& t, double vectors) const {
  double doublings = std::log2(static_cast<double>(lanes_));
  auto carried = static_cast<size_t>(t.vector);
  double each = body_ + (2 * doublings + 5) * kOperation;
  for (const AccessModel& a : accesses_) {
    each += vector_cycles(a, a.store ? t.vector : static_cast<int>(piece_.owners), false);
  }
  double row = 1;
  for (size_t j = 0; j < t.unknowns.size(); ++j) {
    int64_t block = std::min(t.blocks[j], piece_.box[carried]);
    if (t.unknowns[j] == carried) row = static_cast<double>(ceil_div(block, lanes_));
  }
  return std::max(kFmaLatency * row, vectors * each);
}

// Of one step of a carried tile whose rows' lines fall on the same sets of the first cache: what
// bringing them there again takes.
double PieceModel::refetch_ns(const TileShape& t) const {
  std::vector<int64_t> range(piece_.box.size(), 1);
  for (size_t j = 0; j < t.unknowns.size(); ++j) {
    range[t.unknowns[j]] = std::min(t.blocks[j], piece_.box[t.unknowns[j]]);
  }
  auto capacity = static_cast<double>(target_.l1_bytes);
  double held = 0, moved = 0;
  for (const AccessModel& a : accesses_) {
    Block block = block_of(a, range);
    held += occupied(block, capacity / kFirstLevelWays);
    moved += block.run * block.rows * (a.store ? 2 : 1);
  }
  return held > kUsableCache * capacity ? moved / target_.l2_bytes_per_ns : 0;
}

double PieceModel::serial_ns(const PieceSchedule& s) const {
  if (s.carried >= 0) return carried_ns(s);
  LoopRanges r = loop_ranges(s);
  double parts[5] = {
      compute_ns(s), memory_ns(s, r, target_.l1_bytes, kFirstLevelWays, target_.l2_bytes_per_ns),
      memory_ns(s, r, target_.l2_bytes, kSecondLevelWays, target_.l3_bytes_per_ns),
      memory_ns(s, r, target_.l3_bytes, 1, target_.dram_bytes_per_ns), translation_ns(s, r)};
  double most = 0, sum = 0;
  for (double part : parts) {
    most = std::max(most, part);
    sum += part;
  }
  return most + kOverlap * (sum - most) + packing_ns(s) + crowded_ns(s, r);
}

double PieceModel::nanoseconds(const PieceSchedule& s) const {
  double tasks = 1;
  for (const Loop& l : s.outer) {
    if (l.binding != Binding::parallel) break;
    auto extent = static_cast<double>(piece_.box[static_cast<size_t>(l.unknown)]);
    tasks *= std::ceil(extent / static_cast<double>(l.step));
  }
  double serial = serial_ns(s);
  double first = first_share(s, tasks, workers_for(serial, tasks, target_));
  // Copies outside of all loops are parallel loops of their own.
  bool threads = tasks > 1 && target_.threads > 1;
  double copies =
      threads ? static_cast<double>(std::count_if(s.packings.begin(), s.packings.end(),
                                                  [](const Packing& p) { return p.level == 0; }))
              : 0;
  return threaded_ns(serial, tasks, target_, first) + copies * target_.parallel_overhead_ns;
}

// Of the work, what the first of the threads' equal runs of tasks is: no other has fewer short
// blocks.
double PieceModel::first_share(const PieceSchedule& s, double tasks, double workers) const {
  double run = std::ceil(tasks / workers), inner = tasks, share = 0, part = 1;
  for (const Loop& l : s.outer) {
    if (l.binding != Binding::parallel || run <= 0) break;
    auto extent = static_cast<double>(piece_.box[static_cast<size_t>(l.unknown)]);
    auto step = static_cast<double>(l.step);
    inner /= std::ceil(extent / step);
    double whole = std::floor(run / inner), done = std::min(1.0, whole * step / extent);
    share += part * done;
    part *= std::min(step / extent, 1 - done);
    run -= whole * inner;
  }
  return share;
}

double workers_for(double serial, double tasks, const Target& target) {
  double chunks = std::min(tasks, std::floor(serial / kChunkNanoseconds));
  return std::clamp(chunks, 1.0, static_cast<double>(std::max(target.threads, 1)));
}

double threaded_ns(double serial, double tasks, const Target& target, double first) {
  double workers = workers_for(serial, tasks, target);
  if (workers < 2) return serial;
  double rounds = std::ceil(tasks / workers);
  return target.parallel_overhead_ns + serial * std::max(rounds / tasks, first);
}

double piece_nanoseconds(const Piece& piece, const Contraction& c, const Kernel& kernel,
                         const PieceSchedule& schedule, const Target& target) {
  return PieceModel(piece, c, kernel, target).serial_ns(schedule);
}

double attached_ns(const KernelStage& stage, const Kernel& kernel, const Target& target) {
  double total = 0;
  for (const Piece& piece : stage.contraction.pieces) {
    PieceModel model(piece, stage.contraction, kernel, target);
    double points = 1;
    for (int64_t extent : piece.box) points *= static_cast<double>(extent);
    total += points / static_cast<double>(model.lanes()) * (model.body() + 1) * model.cycle_ns();
  }
  return total;
}

double estimate(const Schedule& schedule, const Kernel& kernel, const Target& target) {
  if (schedule.gpu_lines) return gpu::estimate_lines(*schedule.gpu_lines, kernel, target);
  if (row_loops(kernel) > 0) return estimate_rows(schedule, kernel, target);
  double total = kKernelStart;
  for (size_t s = 0; s < kernel.stages.size(); ++s) {
    const KernelStage& stage = kernel.stages[s];
    if (stage.attach >= 0) {
      total += attached_ns(stage, kernel, target) / std::max(1, target.threads);
      continue;
    }
    for (size_t p = 0; p < stage.contraction.pieces.size(); ++p) {
      if (is_gpu(target)) {
        total += gpu::estimate_piece(schedule.stages[s][p], stage.contraction.pieces[p],
                                     stage.contraction, kernel, target);
        continue;
      }
      PieceModel model(stage.contraction.pieces[p], stage.contraction, kernel, target);
      total += model.nanoseconds(schedule.stages[s][p]);
    }
  }
  return total;
}

}  // namespace tile
