#include "core/nest/iteration_reach.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "core/simplify/simplify.h"
#include "core/support/checked.h"

namespace tile::nest {
namespace {

// Ranges of places that are computed for one dimension: about a microsecond each.
constexpr size_t kMostRanges = 1 << 16;

std::string coordinate(size_t along) { return "grid " + std::to_string(along); }

const For* only_loop(const Nest& nest, const std::vector<int64_t>& grid) {
  if (nest.body.size() != 1 || !nest.parameters.empty() || grid.empty()) return nullptr;
  const auto* loop = std::get_if<For>(&nest.body[0].what);
  if (loop == nullptr || loop->kind != LoopKind::parallel) return nullptr;
  int64_t all = 1;
  for (int64_t extent : grid) {
    if (extent < 1 || __builtin_mul_overflow(all, extent, &all)) return nullptr;
  }
  bool known = loop->begin.is_constant(0) && loop->extent.is_constant(all);
  return known ? loop : nullptr;
}

// Indices within a fold use its counters.
bool has_fold(const Body& body) {
  return std::any_of(body.nodes.begin(), body.nodes.end(),
                     [](const Node& n) { return n.kind == NodeKind::fold; });
}

}  // namespace

// The accesses of the loop's body, in the coordinates of the grid.
class IterationAccesses::Collector {
 public:
  Collector(const Nest& nest, const For& loop, const std::vector<int64_t>& grid) : nest_(nest) {
    Expr number = 0;
    for (size_t d = 0; d < grid.size(); ++d) {
      number = number * Expr(grid[d]) + Expr::variable(coordinate(d));
      ranges_.set(coordinate(d), 0, Expr(grid[d] - 1));
    }
    replaced_.emplace(loop.variable, number);
  }

  std::vector<Place> places;

  // False: there is something of which places are not known.
  bool collect(const Block& block) {
    return std::all_of(block.begin(), block.end(), [&](const Statement& s) {
      return std::visit([&](const auto& what) { return collect(what); }, s.what);
    });
  }

 private:
  bool collect(const For& f) {
    loops_.push_back({f.variable, in_grid(f.begin), in_grid(f.extent)});
    bool known = collect(f.body);
    loops_.pop_back();
    return known;
  }
  bool collect(const If& i) {
    return !has_fold(i.predicate) && loads(i.loads) && collect(i.then) && collect(i.otherwise);
  }
  bool collect(const Store& s) {
    if (has_fold(s.body) || !loads(s.loads)) return false;
    return note(s.target, true);
  }
  static bool collect(const Alloc&) { return true; }
  static bool collect(const Sync&) { return false; }
  static bool collect(const Copy&) { return false; }
  static bool collect(const MatrixTile&) { return false; }
  static bool collect(const MatrixMove&) { return false; }

  bool loads(const std::vector<Access>& list) {
    return std::all_of(list.begin(), list.end(), [&](const Access& a) { return note(a, false); });
  }
  bool note(const Access& a, bool store) {
    Scope scope = nest_.buffers[a.buffer].scope;
    if (scope == Scope::workspace) return false;  // iterations share it
    if (scope != Scope::argument) return true;
    Place place{a.buffer, store, false, {}, loops_};
    place.by_data =
        std::any_of(a.values.begin(), a.values.end(), [](int value) { return value >= 0; });
    for (const Expr& index : a.index) place.index.push_back(in_grid(index));
    places.push_back(std::move(place));
    return true;
  }
  Expr in_grid(const Expr& e) const { return simplify(substitute(e, replaced_), ranges_); }

  const Nest& nest_;
  Ranges ranges_;
  std::map<std::string, Expr> replaced_;
  std::vector<Loop> loops_;
};

std::optional<IterationAccesses> IterationAccesses::of(const Nest& nest,
                                                       const std::vector<int64_t>& grid) {
  const For* loop = only_loop(nest, grid);
  if (loop == nullptr) return std::nullopt;
  Collector collector(nest, *loop, grid);
  if (!collector.collect(loop->body)) return std::nullopt;
  IterationAccesses found;
  found.grid_ = grid;
  found.places_ = std::move(collector.places);
  for (size_t i = 0; i < nest.argument_count(); ++i) {
    BufferId buffer(i);
    found.shapes_.push_back(nest.buffers[buffer].shape);
    bool stored = std::any_of(found.places_.begin(), found.places_.end(),
                              [&](const Place& p) { return p.store && p.buffer == buffer; });
    if (stored) found.written_.push_back(buffer);
  }
  return found;
}

bool IterationAccesses::reads(BufferId buffer) const {
  return std::any_of(places_.begin(), places_.end(),
                     [&](const Place& p) { return !p.store && p.buffer == buffer; });
}

// What the iterations with one number along a dimension of the grid touch along a dimension of a
// buffer.
class IterationAccesses::Footprint {
 public:
  // `extent`: of the buffer's dimension.
  Footprint(const IterationAccesses& of, size_t along, int64_t extent)
      : grid_(of.grid_), along_(along), extent_(extent) {}

  void add(const Place& place, size_t dimension) {
    Part part{place.index[dimension], false, &place.loops};
    // The remainder by the extent: the cells from there on, around the end.
    if (part.index.kind() == ExprKind::floor_mod && part.index.args()[1].is_constant(extent_)) {
      Expr inner = part.index.args()[0];
      part.index = inner;
      part.around = true;
    }
    std::string text = to_string(part.index) + (part.around ? "~" : "");
    for (const Loop& l : place.loops) {
      text += "|" + l.variable + "|" + to_string(l.begin) + "|" + to_string(l.extent);
    }
    if (known_.insert(text).second) parts_.push_back(std::move(part));
  }
  bool is_small() const {
    return parts_.size() * static_cast<size_t>(grid_[along_]) <= kMostRanges;
  }
  // Calls f with each range, whose beginning may be any integer where it goes around the end, until
  // it returns false or a range is unbounded; then returns false.
  template <class F>
  bool each(int64_t number, const F& f) const {
    Ranges ranges;
    for (size_t d = 0; d < grid_.size(); ++d) ranges.set(coordinate(d), 0, Expr(grid_[d] - 1));
    ranges.set(coordinate(along_), number, number);
    return std::all_of(parts_.begin(), parts_.end(), [&](const Part& part) {
      Ranges own = ranges;
      if (!set_loops(part, own)) return true;  // runs zero times
      ConstantRange range = constant_range(part.index, own);
      return range.lo && range.hi && f(CellRange{*range.lo, *range.hi}, part.around);
    });
  }

 private:
  struct Part {
    Expr index;
    bool around = false;
    const std::vector<Loop>* loops = nullptr;
  };
  static bool set_loops(const Part& part, Ranges& ranges) {
    for (const Loop& loop : *part.loops) {
      ConstantRange begin = constant_range(loop.begin, ranges),
                    extent = constant_range(loop.extent, ranges);
      if (extent.hi && *extent.hi <= 0) return false;
      ranges.of.erase(loop.variable);  // any integer: unbounded, if it is used
      int64_t last = 0;
      bool known = begin.lo && begin.hi && extent.hi &&
                   !__builtin_add_overflow(*begin.hi, *extent.hi - 1, &last);
      if (known) ranges.set(loop.variable, *begin.lo, last);
    }
    return true;
  }

  const std::vector<int64_t>& grid_;
  size_t along_;
  int64_t extent_;
  std::vector<Part> parts_;
  std::set<std::string> known_;
};

std::optional<StoredRanges> IterationAccesses::stored(BufferId buffer, size_t along) const {
  const std::vector<int64_t>& shape = shapes_[buffer.index()];
  for (size_t d = 0; d < shape.size(); ++d) {
    Footprint stores(*this, along, shape[d]);
    for (const Place& place : places_) {
      // Also where it is loaded: sums that wait there.
      if (place.buffer != buffer) continue;
      if (place.by_data) return std::nullopt;
      stores.add(place, d);
    }
    if (!stores.is_small()) return std::nullopt;
    StoredRanges found{d, shape, {}};
    for (int64_t i = 0; i < grid_[along]; ++i) {
      CellRange all;
      bool known = stores.each(i, [&](const CellRange& range, bool around) {
        if (around) return false;
        all =
            all.empty() ? range : CellRange{std::min(all.lo, range.lo), std::max(all.hi, range.hi)};
        return true;
      });
      bool next =
          known && !all.empty() && (found.ranges.empty() || all.lo > found.ranges.back().hi);
      if (!next) break;
      found.ranges.push_back(all);
    }
    if (static_cast<int64_t>(found.ranges.size()) == grid_[along]) return found;
  }
  return std::nullopt;
}

namespace {

// Numbers first … last of the iterations that store cells of the range; none where first > last.
CellRange iterations_for(const std::vector<CellRange>& stored, const CellRange& cells) {
  auto first = std::partition_point(stored.begin(), stored.end(),
                                    [&](const CellRange& b) { return b.hi < cells.lo; });
  auto behind = std::partition_point(stored.begin(), stored.end(),
                                     [&](const CellRange& b) { return b.lo <= cells.hi; });
  return {first - stored.begin(), behind - stored.begin() - 1};
}

// How far iterations `of` are from number `i` where the last is a neighbour of the first.
Reach distance(const CellRange& of, int64_t i, int64_t iterations) {
  Reach least;
  for (int64_t turns : {0, -1, 1}) {
    int64_t first = of.lo + turns * iterations, last = of.hi + turns * iterations;
    int64_t far = std::max({i - first, last - i, int64_t{0}});
    if (turns == 0 || far < least.far) least = {far, first < 0 || last >= iterations};
  }
  return least;
}

// The same of a range of cells that may go around the end of `extent` cells.
Reach distance_of(const StoredRanges& stored, CellRange cells, bool around, int64_t i) {
  auto iterations = static_cast<int64_t>(stored.ranges.size());
  int64_t extent = stored.shape[stored.dimension];
  if (around) {
    if (cells.hi - cells.lo >= extent) return {iterations, false};
    int64_t turns = floor_div(cells.lo, extent);
    cells = {cells.lo - turns * extent, cells.hi - turns * extent};
  }
  CellRange at = iterations_for(stored.ranges, {cells.lo, std::min(cells.hi, extent - 1)});
  if (cells.hi >= extent) {
    CellRange begun = iterations_for(stored.ranges, {0, cells.hi - extent});
    if (at.empty()) {
      at = begun;
    } else if (!begun.empty()) {
      at.hi = iterations + begun.hi;
    }
  }
  return at.empty() ? Reach{} : distance(at, i, iterations);
}

}  // namespace

std::optional<Reach> IterationAccesses::reach(BufferId buffer, size_t along,
                                              const StoredRanges& stored) const {
  if (shapes_[buffer.index()] != stored.shape) return std::nullopt;
  if (static_cast<int64_t>(stored.ranges.size()) != grid_[along]) return std::nullopt;
  Footprint reads(*this, along, stored.shape[stored.dimension]);
  for (const Place& place : places_) {
    if (place.buffer != buffer || place.store) continue;
    if (place.by_data) return std::nullopt;
    reads.add(place, stored.dimension);
  }
  if (!reads.is_small()) return std::nullopt;
  Reach all;
  for (int64_t i = 0; i < grid_[along]; ++i) {
    bool known = reads.each(i, [&](const CellRange& range, bool around) {
      if (range.empty()) return true;
      Reach one = distance_of(stored, range, around, i);
      all.far = std::max(all.far, one.far);
      all.wraps = all.wraps || one.wraps;
      return true;
    });
    if (!known) return std::nullopt;
  }
  return all;
}

}  // namespace tile::nest
