#include "core/schedule/cost/piece/carried_cost.h"

#include <algorithm>
#include <cmath>

#include "core/kernel/forms/long_tile.h"
#include "core/kernel/geometry.h"
#include "core/schedule/facts/cost_cycles.h"

namespace tile {
namespace {

// Bytes of a step along a carried parallel dimension into another page, and what such a step takes
// for each tensor: [race] (cost_cycles.h), on scans of columns.
constexpr double kFarStepBytes = 4096;
constexpr double kFarStepNanoseconds = 4;

}  // namespace

// An addition waits for the one before, as many at a time as the tile has accumulators.
double CarriedCost::ns(CostTerm* into) const {
  double cells = 1, bytes = 0, vectors = 1;
  for (size_t u = 0; u < f_.piece.parallel_dims; ++u) cells *= static_cast<double>(f_.piece.box[u]);
  for (size_t j = 0; j < shape_.iterators.size(); ++j) {
    bool vector = IteratorId(shape_.iterators[j]) == shape_.vector;
    int64_t block = std::min(shape_.blocks[j], f_.piece.box[shape_.iterators[j]]);
    cells /= static_cast<double>(block);
    vectors *= static_cast<double>(vector ? ceil_div(block, f_.lanes) : block);
  }
  for (const AccessFacts& a : f_.accesses) bytes += a.footprint(f_.piece.box);
  double step = step_cycles(vectors);
  double resident = static_cast<double>(f_.target.l3_bytes) * kUsableCache;
  double rate = bytes > resident ? f_.target.dram_bytes_per_ns : f_.target.l3_bytes_per_ns;
  double far = bytes > static_cast<double>(f_.target.l2_bytes) ? far_steps_ns() : 0;
  double refetch = refetch_ns();
  if (into != nullptr) {
    std::vector<CostTerm> steps{
        cost_leaf("steps along the carried dimension", cells * step * f_.cycle_ns)};
    if (refetch > 0) steps.push_back(cost_leaf("lines fetched again", cells * refetch));
    std::vector<CostTerm> moved{cost_leaf("memory", bytes / rate)};
    if (far > 0) moved.push_back(cost_leaf("pages far apart", cells * far));
    into->how = Combine::largest;
    into->add(combine("cells", Combine::sum, 1, std::move(steps)));
    into->add(combine("data", Combine::sum, 1, std::move(moved)));
    into->facts.emplace_back("cells", cells);
  }
  return std::max(cells * (step * f_.cycle_ns + refetch), bytes / rate + cells * far);
}

// Of one step of all the tile's cells along the carried parallel dimension.
double CarriedCost::step_cycles(double vectors) const {
  double step =
      std::max(f_.target.core.fma_cycles, vectors * (f_.body + 3 * kLoadCycles)) + kIterationCycles;
  if (is_long_tile(s_)) {
    step += vectors * 2 * kLoadCycles + vectors * kIterationCycles / kLongTilePart;
  }
  if (f_.is_window) step = window_cycles(vectors);
  bool lanes_carry = shape_.vector.valid() && shape_.vector == s_.carried;
  if (lanes_carry) step = running_cycles(vectors) + kIterationCycles;
  if (lanes_carry && f_.is_window) {
    // The ends and the beginnings of blocks; vectors are not full at a block's end.
    auto length = static_cast<double>(f_.piece.box[f_.piece.parallel_dims]);
    auto lanes = static_cast<double>(f_.lanes);
    double wasted = std::ceil(length / lanes) * lanes / length;
    step =
        2 * wasted * (step + vectors * (4 * kOperationCycles + 2 * kLoadCycles)) + kIterationCycles;
  }
  // A chain's turns read their values twice, the second time from near.
  if (is_chained(s_)) step += vectors * (f_.body + kOperationCycles + 2 * kLoadCycles);
  return step;
}

// Each value is computed twice and joined three times.
double CarriedCost::window_cycles(double vectors) const {
  double reads = 0;
  for (const AccessFacts& a : f_.accesses) reads += access_.vector_cycles(a, shape_.vector, false);
  double step = vectors * (2 * f_.round + 2 * reads + 3 * kOperationCycles + 4 * kLoadCycles) +
                3 * kIterationCycles;
  return std::max(2 * f_.target.core.fma_cycles, step);
}

// Of one step along a carried parallel dimension whose cells are pages apart: the first line of
// each row there, where no prefetcher has gone ahead.
double CarriedCost::far_steps_ns() const {
  double rows = 0;
  for (const AccessFacts& a : f_.accesses) {
    size_t moved = a.store ? s_.carried.index() : f_.piece.parallel_dims;
    if (moved >= a.strides.size()) continue;  // a window of run-time length
    rows += std::abs(static_cast<double>(a.strides[moved])) * a.bytes >= kFarStepBytes ? 1 : 0;
  }
  return rows * kFarStepNanoseconds;
}

// Of the vectors of a tile whose lanes are a carried parallel dimension's cells: sums within each,
// by shuffles that double their distance, the sum so far put on every lane and added, and one
// addition for each that waits for the one before.
double CarriedCost::running_cycles(double vectors) const {
  const TileShape& t = shape_;
  double doublings = std::log2(static_cast<double>(f_.lanes));
  IteratorId carried = t.vector;
  double each = f_.body + (2 * doublings + 5) * kOperationCycles;
  for (const AccessFacts& a : f_.accesses) {
    each +=
        access_.vector_cycles(a, a.store ? t.vector : IteratorId(f_.piece.parallel_dims), false);
  }
  double row = 1;
  for (size_t j = 0; j < t.iterators.size(); ++j) {
    int64_t block = std::min(t.blocks[j], f_.piece.box[carried]);
    if (t.iterators[j] == carried.index()) row = static_cast<double>(ceil_div(block, f_.lanes));
  }
  return std::max(f_.target.core.fma_cycles * row, vectors * each);
}

// Of one step of a carried tile whose rows' lines fall on the same sets of the first cache: what
// bringing them there again takes.
double CarriedCost::refetch_ns() const {
  const TileShape& t = shape_;
  std::vector<int64_t> range(f_.piece.box.size(), 1);
  for (size_t j = 0; j < t.iterators.size(); ++j) {
    range[t.iterators[j]] = std::min(t.blocks[j], f_.piece.box[t.iterators[j]]);
  }
  auto capacity = static_cast<double>(f_.target.l1_bytes);
  double held = 0, moved = 0;
  for (const AccessFacts& a : f_.accesses) {
    AccessBlock block = a.block(range);
    held += block.occupied(capacity / f_.target.core.l1_ways);
    moved += block.bytes() * (a.store ? 2 : 1);
  }
  return held > kUsableCache * capacity ? moved / f_.target.l2_bytes_per_ns : 0;
}

}  // namespace tile
