// The analytic model's traffic between the levels of memory: the block that each access touches,
// its lines and pages, and how often the loops outside bring it in again.
#include <algorithm>
#include <cmath>

#include "core/schedule/cost.h"
#include "core/schedule/matrix_tiles.h"

namespace tile {
namespace {

constexpr double kShortRun = 32;     // bytes that starting a run of lines costs
constexpr double kFarRun = 48;       // the same from behind the second cache
constexpr double kLostRun = 128;     // the same of a tile's part where it walks more at a time…
constexpr double kRuns = 16;         // …than are fetched ahead from behind the second cache,
constexpr double kRunsOfPages = 32;  // where each is in pages of its own
constexpr double kLeftRun = 128;  // of what is read once: lines fetched ahead that come much later
constexpr double kPage = 4096;
constexpr double kPagesKnown = 1024;  // translations held at once
constexpr double kPageWalk = 40;      // nanoseconds, with the tables of a virtual machine
constexpr double kWalksAtOnce = 8;    // where a tile reads and writes whole rows, one after another

}  // namespace

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

// Of the rows of one tile, how many the second cache's prefetcher follows: it keeps so many
// streams, and one of each page (Intel 64 and IA-32 Architectures Optimization Reference Manual,
// "Data Prefetching").
double PieceModel::runs_ahead(const Block& block) {
  bool apart = std::all_of(block.row_strides.begin(), block.row_strides.end(),
                           [](const auto& row) { return row.second >= kPage; });
  return apart ? kRunsOfPages : kRuns;
}

// Of the blocks that the loop around a level walks through, the part that the block before did not
// have: those of windows overlap.
double PieceModel::fresh_part(size_t access, const LoopRanges& r, size_t level) const {
  const AccessModel& a = accesses_[access];
  if (a.strides[static_cast<size_t>(r.loops[level - 1]->unknown)] == 0) return 1;
  auto bytes = [&](size_t at) {
    Block block = block_of(a, r.ranges[at]);
    return block.exact * block.rows;
  };
  double apart = bytes(level) * r.trips[level - 1];
  return std::min(1.0, bytes(level - 1) / std::max(apart, 1.0));
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
// to different sets. Rows of several dimensions share the places of what divides all their strides.
double PieceModel::occupied(const Block& block, double way) {
  auto bytes_of_way = static_cast<int64_t>(way);
  double distinct = 1;
  int64_t apart = bytes_of_way;
  for (auto [count, stride] : block.row_strides) {
    int64_t step = std::max<int64_t>(gcd(static_cast<int64_t>(stride), bytes_of_way), 1);
    distinct *= std::min(count, std::max(1.0, way / static_cast<double>(step)));
    apart = gcd(apart, step);
  }
  distinct = std::min(distinct, std::max(1.0, way / static_cast<double>(apart)));
  double covered = std::min(way, block.run * distinct);
  double bytes = block.run * block.rows;
  // Conflicts are what makes a part of the cache unusable: here they are counted.
  return distinct >= block.rows ? bytes : bytes * std::max(1.0, kUsableCache * way / covered);
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

PieceModel::LoopRanges PieceModel::loop_ranges(const PieceSchedule& s) const {
  LoopRanges r;
  for (const auto* part : {&s.outer, &s.reduce, &s.tile}) {
    for (const Loop& l : *part) {
      // What registers that hold matrices read and multiply comes at once.
      bool inside = uses_tiles(s) &&
                    (part == &s.tile || l.binding == Binding::matrix || l.binding == Binding::dot);
      if (!inside) r.loops.push_back(&l);
    }
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
    if (!reused) fetched *= fresh_part(i, r, level);
    total += fetched;
  }
  return total;
}

PieceModel::Block PieceModel::block_at(const PieceSchedule& s, const LoopRanges& r, size_t access,
                                       size_t level) const {
  const AccessModel& a = accesses_[access];
  for (const Packing& p : s.packings) {
    if (p.load != static_cast<int>(access)) continue;
    bool inside = level >= static_cast<size_t>(p.level) || packed_once(s, p);
    if (!inside) continue;
    Block dense;
    dense.run = packed_bytes(a, r.ranges[level]);
    dense.exact = dense.run;
    return dense;
  }
  return block_of(a, r.ranges[level]);
}

// Whether the loop moves the access along its runs.
bool PieceModel::walks_along(const PieceSchedule& s, const LoopRanges& r, size_t access,
                             size_t loop) const {
  const AccessModel& a = accesses_[access];
  auto u = static_cast<size_t>(r.loops[loop]->unknown);
  double step = std::abs(static_cast<double>(a.strides[u] * r.loops[loop]->step * a.bytes));
  return step > 0 && step < block_at(s, r, access, loop).run;
}

// Whether the runs of what is read once go on when all else has been read, not in the next
// iteration of the loop around the level: then what was fetched ahead of them is lost.
bool PieceModel::leaves_runs(const PieceSchedule& s, const LoopRanges& r, size_t access,
                             size_t level) const {
  const AccessModel& a = accesses_[access];
  if (a.store || level < 2 || uses(a) > 1 || walks_along(s, r, access, level - 1)) return false;
  for (size_t loop = 0; loop + 1 < level; ++loop) {
    if (r.trips[loop] > 1 && walks_along(s, r, access, loop)) return true;
  }
  return false;
}

// What the access of one tile brings that is new: of windows that slide along an owner from tile to
// tile, and reduce nothing else, the earlier taps' elements have come before.
PieceModel::Block PieceModel::walked_block(const PieceSchedule& s, const LoopRanges& r,
                                           size_t access, size_t level) const {
  const AccessModel& a = accesses_[access];
  size_t inside = std::max(level, s.outer.size());
  // Windows alone come again to the runs of one loop only when those of the loops inside it are
  // done.
  while (taps_only_ && !a.store && inside > level && !walks_along(s, r, access, inside - 1)) {
    --inside;
  }
  level = inside;
  LoopRanges fresh;
  fresh.ranges.assign(r.ranges.size(), r.ranges[level]);
  std::vector<int64_t>& range = fresh.ranges[level];
  for (size_t tap = piece_.owners; tap < piece_.box.size() && taps_only_; ++tap) {
    for (size_t u = 0; u < piece_.owners; ++u) {
      bool slid = range[u] == 1 && piece_.box[u] > 1 &&
                  distinct_part(a, u, piece_.box[u], tap, range[tap]) < 1;
      if (slid) range[tap] = 1;
    }
  }
  return block_at(s, fresh, access, level);
}

// Whether all threads touch the same block inside the level: it is no private copy, and the
// outermost parallel loop, whose iterations the threads divide, does not move it.
bool PieceModel::shared_by_threads(const PieceSchedule& s, const LoopRanges& r, size_t access,
                                   size_t level) const {
  if (target_.threads < 2) return false;
  for (const Packing& p : s.packings) {
    bool inside = p.load == static_cast<int>(access) && level >= static_cast<size_t>(p.level);
    if (inside && p.level > 0) return false;
  }
  for (size_t i = 0; i < s.outer.size() && s.outer[i].binding == Binding::parallel; ++i) {
    if (r.trips[i] <= 1) continue;
    return accesses_[access].strides[static_cast<size_t>(s.outer[i].unknown)] == 0;
  }
  return false;
}

// Whether each thread has a part of the whole tensor that no other touches, the same in every run.
bool PieceModel::divided_by_threads(const PieceSchedule& s, const LoopRanges& r,
                                    size_t access) const {
  double tasks = 1;
  for (size_t i = 0; i < s.outer.size() && s.outer[i].binding == Binding::parallel; ++i) {
    tasks *= r.trips[i];
    bool moves = accesses_[access].strides[static_cast<size_t>(s.outer[i].unknown)] != 0;
    if (moves && r.trips[i] > 1) return tasks >= target_.threads;
    if (r.trips[i] > 1) return false;
  }
  return false;
}

// Nanoseconds that data take to come into a cache of `bytes` from the level behind it.
double PieceModel::memory_ns(const PieceSchedule& s, const LoopRanges& r, int64_t bytes,
                             double ways, double rate) const {
  double way = static_cast<double>(bytes) / ways;
  Measure held = [&](size_t i, size_t level) {
    // While a tile is reduced its sums are in registers.
    if (reduces_ && accesses_[i].store && level >= s.outer.size()) return 0.0;
    Block block = block_at(s, r, i, level);
    double held_bytes = ways > 1 ? occupied(block, way) : block.run * block.rows;
    bool second = bytes == target_.l2_bytes, shared = second && shared_by_threads(s, r, i, level);
    if (second && level == 0 && divided_by_threads(s, r, i)) held_bytes /= target_.threads;
    return shared ? held_bytes * static_cast<double>(bytes) /
                        static_cast<double>(target_.l2_shared_bytes)
                  : held_bytes;
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
    if (along) return block.rows * std::max(block.exact, stride);
    // A tile walks its runs side by side; a longer block's are finished by later tiles.
    Block walked = walked_block(s, r, i, level);
    bool behind = bytes > target_.l1_bytes, dense = block.rows == 1 && uses(accesses_[i]) <= 1;
    bool lost = behind && !dense && walked.rows > runs_ahead(walked) && walked.run < block.run;
    bool left = behind && leaves_runs(s, r, i, level);
    double start = behind ? kFarRun : kShortRun;
    if (left) start = kLeftRun;
    if (lost) start = kLostRun * block.run / walked.run;
    return block.rows * (block.run + start);
  };
  return traffic(r, kUsableCache * static_cast<double>(bytes), held, moved) / rate;
}

// Lines that the hardware fetches ahead along the rows of one tile, for the tile beside it, are
// lost where the rows share the sets of the first cache: each is fetched twice. Of reductions that
// read each element once; others are held by their blocks.
double PieceModel::crowded_ns(const PieceSchedule& s, const LoopRanges& r) const {
  if (!reduces_) return 0;
  auto capacity = static_cast<double>(target_.l1_bytes);
  size_t level = s.outer.size();
  double tiles = 1, total = 0;
  for (size_t i = 0; i < level; ++i) tiles *= r.trips[i];
  for (size_t i = 0; i < piece_.loads.size(); ++i) {
    Block block = block_at(s, r, i, level);
    double bytes = block.run * block.rows;
    double held = occupied(block, capacity / kFirstLevelWays);
    bool crowded = held > kUsableCache * capacity && held > bytes;
    bool once = uses(accesses_[i]) <= 1;
    if (once && crowded) total += tiles * bytes / target_.l3_bytes_per_ns;
  }
  return total;
}

double PieceModel::translation_ns(const PieceSchedule& s, const LoopRanges& r) const {
  Measure count = [&](size_t i, size_t level) { return pages(block_at(s, r, i, level)); };
  double walks = traffic(r, kPagesKnown, count, count) * kPageWalk;
  TileShape t = tile_of(s);
  bool rows = std::any_of(accesses_.begin(), accesses_.end(),
                          [&](const AccessModel& a) { return turned_rows(a, t) > 1; });
  return rows ? walks / kWalksAtOnce : walks;
}

}  // namespace tile
