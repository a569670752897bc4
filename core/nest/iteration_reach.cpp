#include "core/nest/iteration_reach.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "core/simplify/simplify.h"

namespace tile::nest {
namespace {

// Ranges that are computed: some microseconds each.
constexpr size_t kMostRanges = 1 << 15;

// An access with the loops around it inside the parallel one, outermost first.
struct Place {
  const Access* access;
  std::vector<const For*> loops;
};

struct Interval {
  int64_t lo = 0, hi = -1;
  bool empty() const { return lo > hi; }
  void add(const Interval& other) {
    if (other.empty()) return;
    *this = empty() ? other : Interval{std::min(lo, other.lo), std::max(hi, other.hi)};
  }
};

// The accesses of the loop's body to the two buffers.
class Places {
 public:
  Places(const Nest& nest, BufferId state, BufferId result)
      : nest_(nest), state_(state), result_(result) {}

  std::vector<Place> reads, writes;  // of the state; of the result, also where it is loaded

  // False: there is something of which places are not known.
  bool collect(const Block& block) {
    return std::all_of(block.begin(), block.end(), [&](const Statement& s) {
      return std::visit([&](const auto& what) { return collect(what); }, s.what);
    });
  }

 private:
  bool collect(const For& f) {
    loops_.push_back(&f);
    bool known = collect(f.body);
    loops_.pop_back();
    return known;
  }
  bool collect(const If& i) {
    return plain(i.predicate) && loads(i.loads) && collect(i.then) && collect(i.otherwise);
  }
  bool collect(const Store& s) {
    bool argument = nest_.buffers[s.target.buffer].scope == Scope::argument;
    bool shared = nest_.buffers[s.target.buffer].scope == Scope::workspace;
    if (shared || (argument && s.target.buffer != result_)) return false;
    return plain(s.body) && loads(s.loads) && (!argument || note(s.target, writes));
  }
  bool collect(const Alloc&) { return true; }
  bool collect(const Sync&) { return false; }
  bool collect(const Copy&) { return false; }
  bool collect(const MatrixTile&) { return false; }
  bool collect(const MatrixMove&) { return false; }

  bool loads(const std::vector<Access>& list) {
    return std::all_of(list.begin(), list.end(), [&](const Access& a) {
      if (a.buffer == state_) return note(a, reads);
      return a.buffer != result_ || note(a, writes);
    });
  }
  bool note(const Access& a, std::vector<Place>& list) {
    list.push_back({&a, loops_});
    return std::all_of(a.values.begin(), a.values.end(), [](int value) { return value < 0; });
  }
  // Indices within a fold use its counters.
  static bool plain(const Body& body) {
    return std::none_of(body.nodes.begin(), body.nodes.end(),
                        [](const Node& n) { return n.kind == NodeKind::fold; });
  }

  const Nest& nest_;
  BufferId state_, result_;
  std::vector<const For*> loops_;
};

// What one iteration of the parallel loop touches along a dimension.
class Footprint {
 public:
  Footprint(const For& parallel, const std::vector<Place>& places, size_t dimension)
      : parallel_(parallel), dimension_(dimension) {
    std::set<std::pair<std::string, std::vector<const For*>>> known;
    for (const Place& place : places) {
      const Expr& index = place.access->index[dimension];
      if (known.emplace(to_string(index), place.loops).second) places_.push_back(place);
    }
  }

  size_t ranges() const { return places_.size(); }

  // nullopt: unbounded.
  std::optional<Interval> of(int64_t iteration) const {
    Interval all;
    for (const Place& place : places_) {
      Ranges ranges;
      ranges.set(parallel_.variable, iteration, iteration);
      if (!set_loops(place, ranges)) continue;  // runs zero times
      ConstantRange range = constant_range(place.access->index[dimension_], ranges);
      if (!range.lo || !range.hi) return std::nullopt;
      all.add({*range.lo, *range.hi});
    }
    return all;
  }

 private:
  static bool set_loops(const Place& place, Ranges& ranges) {
    for (const For* loop : place.loops) {
      ConstantRange begin = constant_range(loop->begin, ranges),
                    extent = constant_range(loop->extent, ranges);
      if (!begin.lo || !begin.hi || !extent.hi) continue;  // any integer: unbounded, if it is used
      if (*extent.hi <= 0) return false;
      ranges.set(loop->variable, *begin.lo, *begin.hi + *extent.hi - 1);
    }
    return true;
  }

  const For& parallel_;
  size_t dimension_;
  std::vector<Place> places_;
};

// The stores of each iteration, if they are disjoint and in order.
std::vector<Interval> blocks_along(const Footprint& writes, int64_t iterations) {
  std::vector<Interval> blocks;
  for (int64_t i = 0; i < iterations; ++i) {
    std::optional<Interval> block = writes.of(i);
    bool next = block && !block->empty() && (blocks.empty() || block->lo > blocks.back().hi);
    if (!next) return {};
    blocks.push_back(*block);
  }
  return blocks;
}

// How many iterations the blocks of `read` are away from number `i`.
int64_t distance(const std::vector<Interval>& blocks, const Interval& read, int64_t i) {
  auto first = std::partition_point(blocks.begin(), blocks.end(),
                                    [&](const Interval& b) { return b.hi < read.lo; });
  auto behind = std::partition_point(blocks.begin(), blocks.end(),
                                     [&](const Interval& b) { return b.lo <= read.hi; });
  if (first >= behind) return 0;
  int64_t from = first - blocks.begin(), to = behind - blocks.begin() - 1;
  return std::max({i - from, to - i, int64_t{0}});
}

const For* only_loop(const Nest& nest) {
  if (nest.body.size() != 1 || !nest.parameters.empty()) return nullptr;
  const auto* loop = std::get_if<For>(&nest.body[0].what);
  bool known = loop != nullptr && loop->kind == LoopKind::parallel && loop->extent.is_constant() &&
               loop->begin.is_constant(0);
  return known ? loop : nullptr;
}

}  // namespace

std::optional<IterationReach> iteration_reach(const Nest& nest, BufferId state, BufferId result) {
  const For* loop = only_loop(nest);
  const Buffer &from = nest.buffers[state], &to = nest.buffers[result];
  if (loop == nullptr || from.shape != to.shape || from.written) return std::nullopt;
  Places places(nest, state, result);
  if (!places.collect(loop->body)) return std::nullopt;
  IterationReach found{loop->extent.value(), 0};
  if (found.iterations < 1) return std::nullopt;
  auto iterations = static_cast<size_t>(found.iterations);
  for (size_t d = 0; d < to.shape.size(); ++d) {
    Footprint reads(*loop, places.reads, d), writes(*loop, places.writes, d);
    if ((reads.ranges() + writes.ranges()) * iterations > kMostRanges) return std::nullopt;
    std::vector<Interval> blocks = blocks_along(writes, found.iterations);
    if (blocks.empty()) continue;
    for (int64_t i = 0; i < found.iterations; ++i) {
      std::optional<Interval> read = reads.of(i);
      if (!read) return std::nullopt;
      if (!read->empty()) found.reach = std::max(found.reach, distance(blocks, *read, i));
    }
    return found;
  }
  return std::nullopt;
}

}  // namespace tile::nest
