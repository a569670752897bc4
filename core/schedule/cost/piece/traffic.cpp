#include "core/schedule/cost/piece/traffic.h"

#include <algorithm>
#include <cmath>

#include "core/kernel/geometry.h"
#include "core/schedule/facts/tile_shape.h"

namespace tile {
namespace {

// Bytes that starting a run of lines costs, all [race] (cost_cycles.h): from the second cache, from
// behind it, in a tile that walks more runs at a time than are fetched ahead, and of what is read
// once, whose lines that were fetched ahead come much later.
constexpr double kShortRunBytes = 32;
constexpr double kFarRunBytes = 48;
constexpr double kLostRunBytes = 128;
constexpr double kLeftRunBytes = 128;
// [race] Translations under way together where a tile reads and writes whole rows in turn.
constexpr double kWalksAtOnce = 8;

}  // namespace

double fetch_ns(const AccessFacts& a, Range range, double rate, const Target& target) {
  AccessBlock block = a.block(range);
  double translated = block.pages();
  double walks = translated > target.core.translations ? translated * target.core.page_walk_ns : 0;
  return block.rows * (block.run + (block.rows > 1 ? kShortRunBytes : 0)) / rate + walks;
}

Traffic::Traffic(const PieceFacts& facts, const PieceSchedule& schedule)
    : f_(facts),
      schedule_(schedule),
      target_(facts.target),
      loops_(facts.piece, schedule),
      blocks_(facts.accesses.size() * (loops_.count() + 1)),
      shares_(blocks_.size()) {}

bool Traffic::moves(size_t i, size_t loop) const {
  return access(i).strides[loops_.loop(loop).iterator] != 0;
}

// An earlier access of the same kind walks the tensor at a distance inside the block: the lines
// are the same but for its edge. Components of one pixel and neighbours of a stencil do.
bool Traffic::shares_lines(size_t i, size_t level) {
  std::optional<bool>& known = shares_[i * (loops_.count() + 1) + level];
  if (!known) known = f_.shares_lines(i, loops_.at(level));
  return *known;
}

// Of the blocks that the loop around a level walks through, the part that the block before did not
// have: those of windows overlap.
double Traffic::fresh_part(size_t i, size_t level) const {
  if (!moves(i, level - 1)) return 1;
  auto bytes = [&](size_t at) {
    AccessBlock block = access(i).block(loops_.at(at));
    return block.exact * block.rows;
  };
  double apart = bytes(level) * loops_.trips(level - 1);
  return std::min(1.0, bytes(level - 1) / std::max(apart, 1.0));
}

// What passes into a store of the given capacity: the blocks of the outermost loops whose data fit
// are fetched once for each iteration of the loops outside. `held` is what an access takes of the
// capacity inside a level, `moved` what fetching it costs. Of a store of several ways the sets that
// the rows of one access fall on hold these and an even share of the others.
template <class Held, class Moved>
double Traffic::between(const Capacity& capacity, const Held& held, const Moved& moved) {
  size_t level = 0, accesses = f_.accesses.size();
  for (; level < loops_.count(); ++level) {
    double sum = 0, deepest = 0;
    for (size_t i = 0; i < accesses; ++i) {
      if (shares_lines(i, level)) continue;
      double taken = held(i, level);
      sum += taken;
      if (capacity.ways <= 1 || taken == 0) continue;
      const AccessBlock& b = block(i, level);
      double own = taken / b.bytes() * b.depth(capacity.way);
      deepest = std::max(deepest, own - taken / capacity.way);
    }
    bool sets_hold = capacity.ways <= 1 || deepest + sum / capacity.way <= capacity.ways;
    if (sum <= capacity.usable && sets_hold) break;
  }
  if (level == 0) return 0;
  double total = 0;
  for (size_t i = 0; i < accesses; ++i) {
    if (shares_lines(i, level)) continue;
    double fetched = moved(i, level) * (access(i).store ? 2 : 1);
    bool reused = true;
    for (size_t j = level; j-- > 0;) {
      reused = reused && !moves(i, j);
      if (!reused) fetched *= loops_.trips(j);
    }
    if (!reused) fetched *= fresh_part(i, level);
    total += fetched;
  }
  return total;
}

const AccessBlock& Traffic::block(size_t i, size_t level) {
  std::optional<AccessBlock>& known = blocks_[i * (loops_.count() + 1) + level];
  if (!known) known = block_in(i, level, loops_.at(level));
  return *known;
}

// Copies are dense.
AccessBlock Traffic::block_in(size_t i, size_t level, Range range) const {
  for (const Packing& p : schedule_.packings) {
    if (p.load != i) continue;
    bool inside = level >= p.level || f_.packed_once(schedule_, p);
    if (!inside) continue;
    AccessBlock dense;
    dense.run = dense.exact = access(i).packed_bytes(range);
    return dense;
  }
  return access(i).block(range);
}

// Whether the loop moves the access along its runs.
bool Traffic::walks_along(size_t i, size_t loop) {
  const AccessFacts& a = access(i);
  const Loop& l = loops_.loop(loop);
  double step = std::abs(static_cast<double>(a.strides[l.iterator] * l.step * a.bytes));
  return step > 0 && step < block(i, loop).run;
}

// Whether the runs of what is read once go on when all else has been read, not in the next
// iteration of the loop around the level: then what was fetched ahead of them is lost.
bool Traffic::leaves_runs(size_t i, size_t level) {
  const AccessFacts& a = access(i);
  if (a.store || level < 2 || a.uses > 1 || walks_along(i, level - 1)) return false;
  for (size_t loop = 0; loop + 1 < level; ++loop) {
    if (loops_.trips(loop) > 1 && walks_along(i, loop)) return true;
  }
  return false;
}

// What the access of one tile brings that is new: of windows that slide along a parallel dimension
// from tile to tile, and reduce nothing else, the earlier taps' elements have come before.
AccessBlock Traffic::walked_block(size_t i, size_t level) {
  const AccessFacts& a = access(i);
  const Piece& piece = f_.piece;
  size_t inside = std::max(level, schedule_.outer.size());
  if (!f_.taps_only) return block(i, inside);
  // Windows alone come again to the runs of one loop only when those of the loops inside it are
  // done.
  while (!a.store && inside > level && !walks_along(i, inside - 1)) --inside;
  Range whole = loops_.at(inside);
  std::vector<int64_t> range(whole.begin(), whole.end());
  for (size_t tap = piece.parallel_dims; tap < piece.box.size(); ++tap) {
    for (size_t u = 0; u < piece.parallel_dims; ++u) {
      bool slid = range[u] == 1 && piece.box[u] > 1 &&
                  a.distinct_part(u, piece.box[u], tap, range[tap]) < 1;
      if (slid) range[tap] = 1;
    }
  }
  return block_in(i, inside, range);
}

// Whether all threads touch the same block inside the level: it is no private copy, and the
// outermost parallel loop, whose iterations the threads divide, does not move it.
bool Traffic::shared_by_threads(size_t i, size_t level) const {
  if (target_.threads < 2) return false;
  for (const Packing& p : schedule_.packings) {
    bool inside = p.load == i && level >= p.level;
    if (inside && p.level > 0) return false;
  }
  for (size_t l = 0; l < schedule_.outer.size(); ++l) {
    if (schedule_.outer[l].binding != Binding::parallel) break;
    if (loops_.trips(l) > 1) return !moves(i, l);
  }
  return false;
}

// Whether each thread has a part of the whole tensor that no other touches, the same in every run.
bool Traffic::divided_by_threads(size_t i) const {
  for (size_t l = 0; l < schedule_.outer.size(); ++l) {
    if (schedule_.outer[l].binding != Binding::parallel) break;
    if (loops_.trips(l) > 1) return moves(i, l) && loops_.trips(l) >= target_.threads;
  }
  return false;
}

// What fetching the block costs, in bytes; `behind`: into the second cache or one behind it.
double Traffic::moved_bytes(size_t i, size_t level, bool behind) {
  const AccessBlock& whole = block(i, level);
  // The loop outside may walk along the run: then its lines are used up over its iterations.
  double stride = 0;
  if (level > 0) {
    const Loop& outside = loops_.loop(level - 1);
    int64_t elements = access(i).strides[outside.iterator];
    stride = std::abs(static_cast<double>(elements * outside.step * access(i).bytes));
  }
  bool along = stride > 0 && stride < kCacheLine;
  if (along) return whole.rows * std::max(whole.exact, stride);
  if (!behind) return whole.rows * (whole.run + kShortRunBytes);
  // A tile walks its runs side by side; a longer block's are finished by later tiles.
  AccessBlock walked = walked_block(i, level);
  bool dense = whole.rows == 1 && access(i).uses <= 1;
  double ahead = f_.reduces ? walked.runs_ahead() : walked.runs_in_turns();
  bool lost = !dense && walked.rows > ahead && walked.run < whole.run;
  double start = leaves_runs(i, level) ? kLeftRunBytes : kFarRunBytes;
  if (lost) start = kLostRunBytes * whole.run / walked.run;
  return whole.rows * (whole.run + start);
}

double Traffic::memory_ns(int64_t bytes, double ways, double rate) {
  Capacity capacity{kUsableCache * static_cast<double>(bytes), ways,
                    static_cast<double>(bytes) / ways};
  bool second = bytes == target_.l2_bytes, behind = bytes > target_.l1_bytes;
  auto held = [&](size_t i, size_t level) {
    // While a tile is reduced its sums are in registers.
    if (f_.reduces && access(i).store && level >= schedule_.outer.size()) return 0.0;
    double taken = block(i, level).bytes();
    if (second && level == 0 && divided_by_threads(i)) taken /= target_.threads;
    if (!second || !shared_by_threads(i, level)) return taken;
    return taken * static_cast<double>(bytes) / static_cast<double>(target_.l2_shared_bytes);
  };
  auto moved = [&](size_t i, size_t level) { return moved_bytes(i, level, behind); };
  return between(capacity, held, moved) / rate;
}

double Traffic::crowded_ns() {
  if (!f_.reduces) return 0;
  auto capacity = static_cast<double>(target_.l1_bytes);
  size_t level = schedule_.outer.size();
  double tiles = 1, total = 0;
  for (size_t i = 0; i < level; ++i) tiles *= loops_.trips(i);
  for (size_t i = 0; i < f_.piece.loads.size(); ++i) {
    const AccessBlock& b = block(i, level);
    double held = b.occupied(capacity / target_.core.l1_ways);
    bool crowded = held > kUsableCache * capacity && held > b.bytes();
    bool once = access(i).uses <= 1;
    if (once && crowded) total += tiles * b.bytes() / target_.l3_bytes_per_ns;
  }
  return total;
}

double Traffic::translation_ns() {
  auto count = [&](size_t i, size_t level) { return block(i, level).pages(); };
  double walks = between({target_.core.translations}, count, count) * target_.core.page_walk_ns;
  TileShape shape(f_, schedule_);
  bool rows = std::any_of(f_.accesses.begin(), f_.accesses.end(),
                          [&](const auto& a) { return shape.transposed_rows(a) > 1; });
  return rows ? walks / kWalksAtOnce : walks;
}

}  // namespace tile
