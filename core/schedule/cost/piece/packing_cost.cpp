#include "core/schedule/cost/piece/packing_cost.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/kernel/forms/dot_products.h"
#include "core/kernel/geometry.h"
#include "core/schedule/cost/piece/access_cycles.h"
#include "core/schedule/facts/cost_cycles.h"

namespace tile {
namespace {

// [race] (cost_cycles.h) Of a vector that memory has as the copy has it.
constexpr double kCopiedCycles = 3;

// Nanoseconds of bringing a copied operand's elements. A line comes as often as its elements are
// read where the loops between neighbours touch more lines than a cache keeps.
double source_ns(const Packing& p, const AccessFacts& a, IterationBox range, const Target& target) {
  std::vector<double> trips;
  double elements = 1;
  for (const Loop& l : p.order) {
    int64_t& n = range[l.iterator];
    trips.push_back(static_cast<double>(ceil_div(n, l.step)));
    elements *= trips.back();
    n = std::min(n, l.step);
  }
  double lines = kCacheLine, again = 1;
  for (size_t i = p.order.size(); i-- > 0;) {
    const Loop& l = p.order[i];
    auto stride = static_cast<double>(std::abs(a.strides[l.iterator]));
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

// Writing a copy to where it stays. What leaves the second cache is fetched before it is written,
// and written back.
double copy_ns(double bytes, const Target& target) {
  auto fits = [&](int64_t cache) { return bytes <= kUsableCache * static_cast<double>(cache); };
  if (fits(target.l2_bytes)) return bytes / target.l2_bytes_per_ns;
  return 2 * bytes / (fits(target.l3_bytes) ? target.l3_bytes_per_ns : target.dram_bytes_per_ns);
}

// Of one vector of the copy, made from what the iterators' ranges give.
double vector_cycles(const Packing& p, const PieceSchedule& s, const PieceFacts& f,
                     const IterationBox& range) {
  const AccessFacts& a = f.load(p.load);
  size_t last = packed_loops(p, s) - 1;
  int64_t stride = a.strides[p.order[last].iterator];
  double cycles =
      stride == 1 ? kCopiedCycles : static_cast<double>(f.lanes) * kGatheredLaneCycles + 2;
  if (stride == 1 || last == 0) return cycles;
  // Blocks that memory has the other way round are turned; rows that fill none are gathered.
  const Loop& row = p.order[last - 1];
  IteratorId u = row.iterator;
  bool along = a.strides[u] == 1 && row.step == 1 && last + 1 == p.order.size();
  double turned =
      along ? static_cast<double>(range[u] / f.lanes * f.lanes) / static_cast<double>(range[u]) : 0;
  double turning = AccessCycles(f).transpose_cycles(f.lanes);
  return cycles + turned * (kCopiedCycles + turning - cycles);
}

}  // namespace

double packing_ns(const PieceFacts& facts, const PieceSchedule& s, CostTerm* into) {
  double total = 0;
  for (const Packing& p : s.packings) {
    if (facts.packed_once(s, p)) continue;
    const AccessFacts& a = facts.load(p.load);
    IterationBox range = facts.piece.box;
    double times = 1;
    for (size_t i = 0; i < p.level; ++i) {
      const Loop& l = s.outer[i];
      int64_t& r = range[l.iterator];
      times *= static_cast<double>(ceil_div(r, l.step));
      r = std::min(r, l.step);
    }
    double bytes = a.packed_bytes(range), cycles = vector_cycles(p, s, facts, range);
    double moved = source_ns(p, a, range, facts.target) + copy_ns(bytes, facts.target);
    double computed = bytes / a.bytes / static_cast<double>(facts.lanes) * cycles * facts.cycle_ns;
    double ns = times * std::max(computed, moved);
    total += ns;
    if (into == nullptr) continue;
    into->add("packing " + facts.kernel.tensors[a.access->tensor].name, ns);
    into->parts.back().facts.emplace_back("bytes", times * bytes);
  }
  return total;
}

}  // namespace tile
