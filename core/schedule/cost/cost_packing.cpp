// What copies of operands cost to make.
#include <algorithm>
#include <cmath>

#include "core/schedule/cost/cost.h"
#include "core/schedule/cost/cost_cycles.h"

namespace tile {
namespace {

// [race] (cost_cycles.h) Of a vector that memory has as the copy has it.
constexpr double kCopiedCycles = 3;

// Nanoseconds of bringing a copied operand's elements. A line comes as often as its elements are
// read where the loops between neighbours touch more lines than a cache keeps.
double source_ns(const Packing& p, const PieceModel::AccessModel& a, IterationBox range,
                 const Target& target) {
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

}  // namespace

double PieceModel::packing_ns(const PieceSchedule& s, CostTerm* into) const {
  double total = 0;
  for (const Packing& p : s.packings) {
    if (packed_once(s, p)) continue;
    const AccessModel& a = accesses_[p.load];
    IterationBox range = piece_.box;
    double times = 1;
    for (size_t i = 0; i < p.level; ++i) {
      const Loop& l = s.outer[i];
      int64_t& r = range[l.iterator];
      times *= static_cast<double>(ceil_div(r, l.step));
      r = std::min(r, l.step);
    }
    double bytes = packed_bytes(a, range);
    size_t last = packed_loops(p, s) - 1;
    int64_t stride = a.strides[p.order[last].iterator];
    auto lanes = static_cast<double>(lanes_);
    double cycles = stride == 1 ? kCopiedCycles : lanes * kGatheredLaneCycles + 2;
    if (stride != 1 && last > 0) {
      // Blocks that memory has the other way round are turned; rows that fill none are gathered.
      const Loop& row = p.order[last - 1];
      IteratorId u = row.iterator;
      bool along = a.strides[u] == 1 && row.step == 1 && last + 1 == p.order.size();
      double turned =
          along ? static_cast<double>(range[u] / lanes_ * lanes_) / static_cast<double>(range[u])
                : 0;
      cycles += turned * (kCopiedCycles + transpose_cycles(lanes_) - cycles);
    }
    double moved = source_ns(p, a, range, target_) + copy_ns(bytes);
    double ns = times * std::max(bytes / a.bytes / lanes * cycles * cycle_ns_, moved);
    total += ns;
    if (into == nullptr) continue;
    const BoundTensor& t = kernel_.tensors[a.access->tensor];
    into->add("packing " + t.name, ns);
    into->parts.back().facts.emplace_back("bytes", times * bytes);
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

}  // namespace tile
