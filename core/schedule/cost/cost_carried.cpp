// What a carried reduction costs: scans and sliding windows.
#include <algorithm>
#include <cmath>

#include "core/kernel/forms/long_tile.h"
#include "core/kernel/geometry.h"
#include "core/schedule/cost/cost.h"
#include "core/schedule/cost/cost_cycles.h"

namespace tile {
namespace {

// Bytes of a step along a carried parallel dimension into another page, and what such a step takes
// for each tensor: [race] (cost_cycles.h), on scans of columns.
constexpr double kFarStepBytes = 4096;
constexpr double kFarStepNanoseconds = 4;

}  // namespace

// One pass over the cells in order: an addition waits for the one before, as many at a time as the
// tile has accumulators.
double PieceModel::carried_ns(const PieceSchedule& s, CostTerm* into) const {
  TileShape t = tile_of(s);
  double cells = 1, bytes = 0, vectors = 1;
  for (size_t u = 0; u < piece_.parallel_dims; ++u) cells *= static_cast<double>(piece_.box[u]);
  for (size_t j = 0; j < t.iterators.size(); ++j) {
    bool vector = IteratorId(t.iterators[j]) == t.vector;
    int64_t block = std::min(t.blocks[j], piece_.box[t.iterators[j]]);
    cells /= static_cast<double>(block);
    vectors *= static_cast<double>(vector ? ceil_div(block, lanes_) : block);
  }
  for (const AccessModel& a : accesses_) bytes += footprint(a, piece_.box);
  double step =
      std::max(target_.core.fma_cycles, vectors * (body_ + 3 * kLoadCycles)) + kIterationCycles;
  if (is_long_tile(s))
    step += vectors * 2 * kLoadCycles + vectors * kIterationCycles / kLongTilePart;
  if (window_) {
    // Each value is computed twice and joined three times.
    double reads = 0;
    for (const AccessModel& a : accesses_) reads += vector_cycles(a, t.vector, false);
    step = vectors * (2 * round_ + 2 * reads + 3 * kOperationCycles + 4 * kLoadCycles) +
           3 * kIterationCycles;
    step = std::max(2 * target_.core.fma_cycles, step);
  }
  if (t.vector.valid() && t.vector == s.carried)
    step = running_cycles(t, vectors) + kIterationCycles;
  if (t.vector.valid() && t.vector == s.carried && window_) {
    // The ends and the beginnings of blocks; vectors are not full at a block's end.
    auto length = static_cast<double>(piece_.box[piece_.parallel_dims]);
    auto lanes = static_cast<double>(lanes_);
    double wasted = std::ceil(length / lanes) * lanes / length;
    step =
        2 * wasted * (step + vectors * (4 * kOperationCycles + 2 * kLoadCycles)) + kIterationCycles;
  }
  // A chain's turns read their values twice, the second time from near.
  if (is_chained(s)) step += vectors * (body_ + kOperationCycles + 2 * kLoadCycles);
  double resident = static_cast<double>(target_.l3_bytes) * kUsableCache;
  double rate = bytes > resident ? target_.dram_bytes_per_ns : target_.l3_bytes_per_ns;
  double far = bytes > static_cast<double>(target_.l2_bytes) ? far_steps_ns(s.carried) : 0;
  double refetch = refetch_ns(t);
  if (into != nullptr) {
    std::vector<CostTerm> steps{
        cost_leaf("steps along the carried dimension", cells * step * cycle_ns_)};
    if (refetch > 0) steps.push_back(cost_leaf("lines fetched again", cells * refetch));
    std::vector<CostTerm> moved{cost_leaf("memory", bytes / rate)};
    if (far > 0) moved.push_back(cost_leaf("pages far apart", cells * far));
    into->how = Combine::largest;
    into->add(combine("cells", Combine::sum, 1, std::move(steps)));
    into->add(combine("data", Combine::sum, 1, std::move(moved)));
    into->facts.emplace_back("cells", cells);
  }
  return std::max(cells * (step * cycle_ns_ + refetch), bytes / rate + cells * far);
}

// Of one step along a carried parallel dimension whose cells are pages apart: the first line of
// each row there, where no prefetcher has gone ahead.
double PieceModel::far_steps_ns(IteratorId carried) const {
  double rows = 0;
  for (const AccessModel& a : accesses_) {
    size_t moved = a.store ? carried.index() : piece_.parallel_dims;
    if (moved >= a.strides.size()) continue;  // a window of run-time length
    rows += std::abs(static_cast<double>(a.strides[moved])) * a.bytes >= kFarStepBytes ? 1 : 0;
  }
  return rows * kFarStepNanoseconds;
}

// Of the vectors of a tile whose lanes are a carried parallel dimension's cells: sums within each,
// by shuffles that double their distance, the sum so far put on every lane and added, and one
// addition for each that waits for the one before.
double PieceModel::running_cycles(const TileShape& t, double vectors) const {
  double doublings = std::log2(static_cast<double>(lanes_));
  IteratorId carried = t.vector;
  double each = body_ + (2 * doublings + 5) * kOperationCycles;
  for (const AccessModel& a : accesses_) {
    each += vector_cycles(a, a.store ? t.vector : IteratorId(piece_.parallel_dims), false);
  }
  double row = 1;
  for (size_t j = 0; j < t.iterators.size(); ++j) {
    int64_t block = std::min(t.blocks[j], piece_.box[carried]);
    if (t.iterators[j] == carried.index()) row = static_cast<double>(ceil_div(block, lanes_));
  }
  return std::max(target_.core.fma_cycles * row, vectors * each);
}

}  // namespace tile
