#include "backends/cpu/plan/long_loops.h"

#include <algorithm>
#include <bit>
#include <set>

#include "core/simplify/simplify.h"

namespace tile::cpu {
namespace {

// Nodes of bodies computed between two questions: of 0.1 ns, where vectors stay in the caches, to
// some 10 ns, where each one misses them, so that questions are 0.4 to 40 ms apart.
constexpr double kNodes = 1 << 22;
constexpr double kUnknownTrips = 256;  // of a fold whose bounds are data
constexpr double kProductNodes = 64;   // that a product of tile registers takes as long as

class Survey {
 public:
  explicit Survey(const nest::Nest& nest) {
    for (const nest::Parameter& p : nest.parameters) ranges_.set(p.name, p.lo, p.hi);
    work(nest.body);
  }
  LongLoops found;

 private:
  double work(const nest::Block& block) {
    double sum = 0;
    for (const nest::Statement& s : block) {
      sum += std::visit([&](const auto& what) { return work(what); }, s.what);
    }
    return sum;
  }
  double work(const nest::Store& s) { return work(s.body) + 1; }
  double work(const nest::If& i) {
    return work(i.predicate) + 1 + std::max(work(i.then), work(i.otherwise));
  }
  double work(const nest::MatrixTile&) { return kProductNodes; }
  double work(const nest::MatrixMove&) { return kProductNodes; }
  double work(const nest::Alloc&) { return 0; }
  double work(const nest::Sync&) { return 0; }
  double work(const nest::Copy&) { return 0; }

  double work(const nest::For& f) {
    std::optional<int64_t> least = constant_range(f.begin, ranges_).lo;
    std::optional<int64_t> most = constant_range(f.extent, ranges_).hi;
    std::optional<int64_t> end = constant_range(f.begin + f.extent, ranges_).hi;
    if (least && end) {
      ranges_.set(f.variable, *least, std::max(*least, *end - 1));
    } else {
      ranges_.of.erase(f.variable);
    }
    double one = work(f.body);
    bool vector = f.kind == nest::LoopKind::vector;
    bool counted = f.kind == nest::LoopKind::serial || f.kind == nest::LoopKind::parallel;
    double trips = vector ? 1 : most ? static_cast<double>(std::max<int64_t>(*most, 0)) : kNodes;
    if (counted && !keeps_tiles(f.body)) note(&f, one, trips);
    return one * trips;
  }

  double work(const Body& body) {
    double sum = 0;
    for (const Node& node : body.nodes) {
      sum += 1;
      if (node.kind == NodeKind::fold) sum += work(body, node);
    }
    return sum;
  }
  double work(const Body& body, const Node& fold) {
    double one = work(*fold.region);
    std::optional<int64_t> least = bound(body[fold.args[0]]).lo,
                           most = bound(body[fold.args[1]]).hi;
    double trips = kUnknownTrips;
    if (least && most) {
      trips = std::max(0.0, static_cast<double>(*most) - static_cast<double>(*least));
      note(&fold, one, trips);
    } else {
      note(&fold, one, kNodes);
    }
    return one * trips;
  }
  ConstantRange bound(const Node& node) const {
    if (node.kind == NodeKind::integer) return {node.integer, node.integer};
    if (node.kind == NodeKind::size) return constant_range(node.expr, ranges_);
    return {};
  }

  void note(const void* loop, double one, double trips) {
    if (one * trips < kNodes) return;
    auto run = static_cast<uint64_t>(std::max(1.0, kNodes / std::max(one, 1.0)));
    found[loop] = static_cast<int64_t>(std::bit_floor(run));
  }

  // Whether tile registers hold something from one iteration to the next: a question would lose
  // it.
  static bool keeps_tiles(const nest::Block& block) {
    std::set<nest::BufferId> begun;
    return uses_tiles(block, begun);
  }
  static bool uses_tiles(const nest::Block& block, std::set<nest::BufferId>& begun) {
    return std::any_of(block.begin(), block.end(), [&](const nest::Statement& s) {
      if (const auto* a = std::get_if<nest::Alloc>(&s.what)) begun.insert(a->buffer);
      if (const auto* m = std::get_if<nest::MatrixTile>(&s.what)) return !begun.contains(m->sum);
      if (const auto* m = std::get_if<nest::MatrixMove>(&s.what)) {
        return !begun.contains(m->fragment);
      }
      if (const auto* f = std::get_if<nest::For>(&s.what)) return uses_tiles(f->body, begun);
      const auto* i = std::get_if<nest::If>(&s.what);
      return i != nullptr && (uses_tiles(i->then, begun) || uses_tiles(i->otherwise, begun));
    });
  }

  Ranges ranges_;
};

}  // namespace

LongLoops long_loops(const nest::Nest& nest) { return Survey(nest).found; }

}  // namespace tile::cpu
