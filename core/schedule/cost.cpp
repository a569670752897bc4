// The analytic model: cycles of the register tile, traffic between the levels of memory, copies,
// threads. Every constant is a property of machines of this kind or comes from the Target.
#include "core/schedule/cost.h"

#include <algorithm>
#include <cmath>

#include "core/schedule/dots.h"
#include "core/schedule/gpu_forms.h"
#include "core/schedule/rows.h"
#include "core/schedule/window.h"

namespace tile {
namespace {

constexpr double kCacheLine = 64;
constexpr double kFmaLatency = 4;       // cycles
constexpr double kOperation = 0.5;      // cycles of a simple vector operation: two a cycle
constexpr double kLoad = 0.5;           // of a contiguous or broadcast vector load
constexpr double kGatheredLane = 0.75;  // of one lane of a gather
constexpr double kScatteredLane = 1.2;
constexpr double kFarLanes = 2;  // more cost of lanes of a window in lines of their own
constexpr int64_t kComponents = 4;
constexpr double kIssue = 0.2;         // cycles of any one instruction in the front end
constexpr double kIteration = 0.4;     // of a serial loop around a tile, mostly hidden
constexpr double kTileStart = 12;      // of entering and leaving a register tile
constexpr double kLaneCombine = 12;    // of adding up the lanes of one vector
constexpr double kUsableCache = 0.75;  // of a cache, the rest is lost to conflicts
constexpr double kFirstLevelWays = 12;
constexpr double kSecondLevelWays = 16;
constexpr double kShortRun = 32;  // bytes that starting a run of lines costs
constexpr double kPage = 4096;
constexpr double kPagesKnown = 1024;  // translations held at once
constexpr double kPageWalk = 40;      // nanoseconds, with the tables of a virtual machine
constexpr double kTestedTile = 0.3;   // more time that a tile takes where its points are tested
constexpr double kMaskedTile = 0.6;   // where its lanes are
constexpr double kOverlap = 0.15;     // of the smaller costs that the largest does not hide

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
  lanes_ = std::max(1, target.vector_bits / bits);
  for (size_t i = 0; i < piece.loads.size(); ++i) {
    // A register tile converts an element once, however often it multiplies it.
    if (reduces_) accesses_[i].conversion = facts.loads[i].conversion;
    if (!reduces_) facts.cycles += facts.loads[i].conversion;
  }
  body_ = facts.cycles + (reduces_ && !is_fused(piece.body) ? kOperation : 0);
  chain_ = facts.chain;
  window_ = window_form(piece, c).has_value();
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

double PieceModel::value_span(const std::vector<int64_t>& moves,
                              const std::vector<int64_t>& range) {
  double span = 0;
  for (size_t u = 0; u < moves.size(); ++u) {
    span += std::abs(static_cast<double>(moves[u])) * static_cast<double>(range[u] - 1);
  }
  return span;
}

// What one access touches while each unknown runs over `range` values: runs of contiguous bytes,
// whole cache lines, in rows that lie `strides` apart.
PieceModel::Block PieceModel::block_of(const AccessModel& a,
                                       const std::vector<int64_t>& range) const {
  Block block;
  double stride = a.bytes;
  bool contiguous = true;
  for (size_t d = a.shape.size(); d-- > 0;) {
    auto extent = static_cast<double>(std::max<int64_t>(a.shape[d], 1));
    double span = 1;
    const Index& index = a.access->index[d];
    if (index.value >= 0 && !a.moves[d]) span = extent;
    if (index.value >= 0 && a.moves[d]) span += value_span(*a.moves[d], range);
    for (size_t u = 0; u < index.affine.coefficients.size() && index.value < 0; ++u) {
      Rational factor = index.affine.coefficients[u];
      if (factor < Rational(0)) factor = -factor;
      span += static_cast<double>(factor.num()) / static_cast<double>(factor.den()) *
              static_cast<double>(range[u] - 1);
    }
    span = std::min(span, extent);
    // Rows closer than a line, such as one component of each pixel, share their lines.
    bool dense = contiguous || (block.rows == 1 && stride < kCacheLine);
    if (dense) {
      block.run = std::max(block.run, stride * span);
    } else if (span > 1) {
      block.rows *= span;
      block.row_strides.emplace_back(span, stride);
    }
    contiguous = contiguous && span >= extent;
    stride *= extent;
  }
  block.exact = block.run;
  if (a.gathers) limit_to_points(block, a, range);
  bool rounded = block.rows > 1;
  if (rounded) block.run = std::max(block.run, kCacheLine);
  return block;
}

// Where data decide on an index, each point reads no more than a line of its own.
void PieceModel::limit_to_points(Block& block, const AccessModel& a,
                                 const std::vector<int64_t>& range) {
  double points = a.times;
  for (int64_t n : range) points *= static_cast<double>(n);
  if (points * kCacheLine >= block.run * block.rows) return;
  double size = static_cast<double>(a.bytes);
  for (int64_t n : a.shape) size *= static_cast<double>(n);
  block.run = block.exact = kCacheLine;
  block.rows = points;
  block.row_strides.assign(1, {points, std::max(kCacheLine, size / points)});
}

// An earlier access of the same kind walks the tensor at a distance inside the block: the lines
// are the same but for its edge. Components of one pixel and neighbours of a stencil do.
bool PieceModel::shares_lines(size_t access, const std::vector<int64_t>& range) const {
  const AccessModel& a = accesses_[access];
  for (size_t i = 0; i < access; ++i) {
    const AccessModel& other = accesses_[i];
    if (other.store == a.store && near(a, other, range)) return true;
  }
  return false;
}
bool PieceModel::near(const AccessModel& a, const AccessModel& b,
                      const std::vector<int64_t>& range) {
  if (a.access->tensor != b.access->tensor) return false;
  double stride = a.bytes;
  for (size_t d = a.shape.size(); d-- > 0;) {
    const Index &i = a.access->index[d], &j = b.access->index[d];
    bool values = i.value >= 0 || j.value >= 0;
    if (values && (i.value < 0 || j.value < 0 || !a.moves[d] || a.moves[d] != b.moves[d])) {
      return false;
    }
    Affine apart = i.affine - j.affine;
    if (!values && !apart.is_constant()) return false;
    double span = 1;
    for (size_t u = 0; u < range.size() && !values; ++u) {
      span += std::abs(i.affine.coefficient(u).floor()) * static_cast<double>(range[u] - 1);
    }
    double distance = values ? 0 : std::abs(static_cast<double>(apart.constant.floor()));
    if (distance >= span && distance * stride >= kCacheLine) return false;
    stride *= static_cast<double>(std::max<int64_t>(a.shape[d], 1));
  }
  return true;
}

double PieceModel::footprint(const AccessModel& a, const std::vector<int64_t>& range) const {
  Block block = block_of(a, range);
  return block.run * block.rows;
}

double PieceModel::fetch_ns(const AccessModel& a, const std::vector<int64_t>& range,
                            double rate) const {
  Block block = block_of(a, range);
  double translated = pages(block);
  double walks = translated > kPagesKnown ? translated * kPageWalk : 0;
  return block.rows * (block.run + (block.rows > 1 ? kShortRun : 0)) / rate + walks;
}

double PieceModel::uses(const AccessModel& a) const {
  double points = 1;
  for (int64_t extent : piece_.box) points *= static_cast<double>(extent);
  Block block = block_of(a, piece_.box);
  return points / std::max(1.0, block.exact * block.rows / a.bytes);
}

// Bytes of the cache that the block occupies where its rows fall on the same sets: `way` bytes map
// to different sets.
double PieceModel::occupied(const Block& block, double way) {
  double covered = block.run, distinct = 1;
  for (auto [count, stride] : block.row_strides) {
    auto step = gcd(static_cast<int64_t>(stride), static_cast<int64_t>(way));
    double places = std::max(1.0, way / static_cast<double>(std::max<int64_t>(step, 1)));
    distinct *= std::min(count, places);
  }
  covered = std::min(way, block.run * distinct);
  double bytes = block.run * block.rows;
  return distinct >= block.rows ? bytes : bytes * std::max(1.0, way / covered);
}

double PieceModel::pages(const Block& block) {
  double count = std::max(1.0, block.run / kPage), gap = block.run;
  for (auto [rows, stride] : block.row_strides) {
    count *= stride >= kPage ? rows : std::max(1.0, rows * stride / kPage);
    gap = std::max(gap, rows * stride);
  }
  return std::min(count, std::max(1.0, gap / kPage) + 1);
}

// The same for a packed block: dense.
double PieceModel::packed_bytes(const AccessModel& a, const std::vector<int64_t>& range) const {
  double bytes = a.bytes;
  for (size_t u = 0; u < range.size(); ++u) {
    if (a.strides[u] != 0) bytes *= static_cast<double>(range[u]);
  }
  return bytes;
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

// Cycles of a vector of dots.
double PieceModel::dot_cycles(int64_t group) const {
  std::optional<DotForm> form = dot_form(piece_, contraction_, kernel_.tensors, group);
  double rate = form ? dot_per_ns(*form, target_) : 0;
  if (rate <= 0) return body_ * static_cast<double>(2 * group);  // step by step
  return kOperation * target_.fma_per_ns * static_cast<double>(group) / rate;
}

// Cycles of one vector of groups of neighbours; `cycles`: of a vector of elements. Unless they are
// packed, or one scalar that memory has so, they are joined by a shift and an `or` each.
double PieceModel::group_cycles(const PieceSchedule& s, const TileShape& t, size_t load,
                                double cycles) const {
  bool packed = std::any_of(s.packings.begin(), s.packings.end(),
                            [&](const Packing& p) { return p.load == static_cast<int>(load); });
  const AccessModel& a = accesses_[load];
  int64_t stride = a.strides[static_cast<size_t>(s.reduce.back().unknown)];
  bool scalar = t.vector < 0 || a.strides[static_cast<size_t>(t.vector)] == 0;
  if (packed || (scalar && stride == 1)) return cycles;
  auto group = static_cast<double>(t.group);
  return group * cycles + 3 * (group - 1) * kOperation;
}

// Cycles of one register tile in which the tile's unknowns have `counts` iterations (vectors for
// the vector unknown).
double PieceModel::tile_cycles(const PieceSchedule& s, const TileShape& t,
                               const std::vector<double>& counts, double steps) const {
  double vectors = 1;
  for (double n : counts) vectors *= n;
  double loads = 0, load_count = 0;
  for (size_t i = 0; i < piece_.loads.size(); ++i) {
    double n = 1;
    for (size_t j = 0; j < t.unknowns.size(); ++j) {
      bool depends = accesses_[i].strides[t.unknowns[j]] != 0 || accesses_[i].gathers;
      if (depends) n *= counts[j];
    }
    bool packed = std::any_of(s.packings.begin(), s.packings.end(), [&](const Packing& p) {
      return p.load == static_cast<int>(i) && p.order[packed_loops(p, s) - 1].unknown == t.vector;
    });
    n *= accesses_[i].times;
    double cycles = vector_cycles(accesses_[i], t.vector, packed);
    if (t.group > 1) cycles = group_cycles(s, t, i, cycles);
    loads += n * (cycles + (t.group > 1 ? 0 : accesses_[i].conversion));
    load_count += n;
  }
  double stores = 0;
  for (size_t i = piece_.loads.size(); i < accesses_.size(); ++i) {
    int vector = t.vector >= static_cast<int>(piece_.owners) ? -1 : t.vector;
    stores += vectors * vector_cycles(accesses_[i], vector, false);
  }
  double work = vectors * (t.group > 1 ? dot_cycles(t.group) : body_);
  double instructions = t.group > 1 ? vectors : work / kOperation;
  double step = std::max({work, loads, (instructions + load_count) * kIssue});
  // Rounds of a fold wait for each other, and so do the folds of a tile's rows.
  double rows = 1;
  for (size_t j = 0; j < counts.size(); ++j) {
    if (static_cast<int>(t.unknowns[j]) != t.vector) rows *= counts[j];
  }
  step = std::max(step, chain_ * rows);
  if (!reduces_) return std::max(step, stores) + kTileStart / 4;
  step = std::max(step, kFmaLatency / static_cast<double>(t.copies)) + kIteration / t.unroll;
  double ends = stores + vectors * kOperation + kTileStart;
  if (t.vector >= static_cast<int>(piece_.owners)) ends += vectors * kLaneCombine;
  return steps * step + ends;
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
  }
  return t;
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
      bool masked = static_cast<int>(u) == t.vector;
      factor += std::min(1.0, 2 / tiles) * (masked ? kMaskedTile : kTestedTile);
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
  double blocks = 1;
  for (const Loop& l : s.outer) {
    if (l.unknown >= static_cast<int>(piece_.owners)) {
      double n = std::ceil(static_cast<double>(piece_.box[static_cast<size_t>(l.unknown)]) /
                           static_cast<double>(l.step));
      blocks = std::max(blocks, n);
    }
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
      bool vector = static_cast<int>(t.unknowns[j]) == t.vector;
      counts.push_back(static_cast<double>(vector ? ceil_div(size, lanes_) : size));
    }
    if (number > 0) total += number * tile_cycles(s, t, counts, steps);
  }
  return total * border_factor(t);
}

PieceModel::LoopRanges PieceModel::loop_ranges(const PieceSchedule& s) const {
  LoopRanges r;
  for (const auto* part : {&s.outer, &s.reduce, &s.tile}) {
    for (const Loop& l : *part) r.loops.push_back(&l);
  }
  r.ranges.push_back(piece_.box);
  for (const Loop* l : r.loops) {
    std::vector<int64_t> range = r.ranges.back();
    int64_t& n = range[static_cast<size_t>(l->unknown)];
    r.trips.push_back(static_cast<double>(ceil_div(n, l->step)));
    n = std::min(n, l->step);
    r.ranges.push_back(std::move(range));
  }
  return r;
}

// What passes into a store of the given capacity: the blocks of the outermost loops whose data fit
// are fetched once for each iteration of the loops outside. `held` is what an access takes of the
// capacity inside a level, `moved` what fetching it costs.
double PieceModel::traffic(const LoopRanges& r, double capacity, const Measure& held,
                           const Measure& moved) const {
  size_t level = 0;
  for (; level < r.loops.size(); ++level) {
    double sum = 0;
    for (size_t i = 0; i < accesses_.size(); ++i) {
      if (!shares_lines(i, r.ranges[level])) sum += held(i, level);
    }
    if (sum <= capacity) break;
  }
  if (level == 0) return 0;
  double total = 0;
  for (size_t i = 0; i < accesses_.size(); ++i) {
    if (shares_lines(i, r.ranges[level])) continue;
    double fetched = moved(i, level) * (accesses_[i].store ? 2 : 1);
    bool reused = true;
    for (size_t j = level; j-- > 0;) {
      bool depends = accesses_[i].strides[static_cast<size_t>(r.loops[j]->unknown)] != 0;
      reused = reused && !depends;
      if (!reused) fetched *= r.trips[j];
    }
    total += fetched;
  }
  return total;
}

PieceModel::Block PieceModel::block_at(const PieceSchedule& s, const LoopRanges& r, size_t access,
                                       size_t level) const {
  const AccessModel& a = accesses_[access];
  for (const Packing& p : s.packings) {
    bool inside = p.load == static_cast<int>(access) && level >= static_cast<size_t>(p.level);
    if (!inside) continue;
    Block dense;
    dense.run = packed_bytes(a, r.ranges[level]);
    dense.exact = dense.run;
    return dense;
  }
  return block_of(a, r.ranges[level]);
}

// Nanoseconds that data take to come into a cache of `bytes` from the level behind it.
double PieceModel::memory_ns(const PieceSchedule& s, const LoopRanges& r, int64_t bytes,
                             double ways, double rate) const {
  double way = static_cast<double>(bytes) / ways;
  Measure held = [&](size_t i, size_t level) {
    Block block = block_at(s, r, i, level);
    return ways > 1 ? occupied(block, way) : block.run * block.rows;
  };
  Measure moved = [&](size_t i, size_t level) {
    Block block = block_at(s, r, i, level);
    // The loop outside may walk along the run: then its lines are used up over its iterations.
    const Loop* outside = level > 0 ? r.loops[level - 1] : nullptr;
    double stride = 0;
    if (outside != nullptr) {
      int64_t elements = accesses_[i].strides[static_cast<size_t>(outside->unknown)];
      stride = std::abs(static_cast<double>(elements * outside->step * accesses_[i].bytes));
    }
    bool along = stride > 0 && stride < kCacheLine;
    return block.rows * (along ? std::max(block.exact, stride) : block.run + kShortRun);
  };
  return traffic(r, kUsableCache * static_cast<double>(bytes), held, moved) / rate;
}

double PieceModel::translation_ns(const PieceSchedule& s, const LoopRanges& r) const {
  Measure count = [&](size_t i, size_t level) { return pages(block_at(s, r, i, level)); };
  return traffic(r, kPagesKnown, count, count) * kPageWalk;
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
    double elements = packed_bytes(a, range) / a.bytes;
    int64_t stride = a.strides[static_cast<size_t>(p.order[packed_loops(p, s) - 1].unknown)];
    auto lanes = static_cast<double>(lanes_);
    double cycles = stride == 1 ? 3 : lanes * kGatheredLane + 2;
    double source = elements * a.bytes / target_.l3_bytes_per_ns;
    total += times * std::max(elements / lanes * cycles * cycle_ns_, source);
  }
  return total;
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
  double resident = static_cast<double>(target_.l3_bytes) * kUsableCache;
  double rate = bytes > resident ? target_.dram_bytes_per_ns : target_.l3_bytes_per_ns;
  return std::max(cells * step * cycle_ns_, bytes / rate);
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
  return most + kOverlap * (sum - most) + packing_ns(s);
}

double PieceModel::nanoseconds(const PieceSchedule& s) const {
  double serial = serial_ns(s);
  double tasks = 1;
  for (const Loop& l : s.outer) {
    if (l.binding != Binding::parallel) break;
    tasks *= static_cast<double>(ceil_div(piece_.box[static_cast<size_t>(l.unknown)], l.step));
  }
  return threaded_ns(serial, tasks, target_);
}

double threaded_ns(double serial, double tasks, const Target& target) {
  double chunks = std::min(tasks, std::floor(serial / kChunkNanoseconds));
  if (chunks < 2 || target.threads < 2) return serial;
  double workers = std::min(chunks, static_cast<double>(target.threads));
  double rounds = std::ceil(tasks / workers);
  return target.parallel_overhead_ns + serial * rounds / tasks;
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
