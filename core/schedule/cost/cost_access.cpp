// The cycles of single accesses of a register tile: vectors of neighbours, lanes that memory has
// apart, blocks that registers transpose.
#include <algorithm>
#include <cmath>

#include "core/kernel/geometry.h"
#include "core/schedule/cost/cost.h"
#include "core/schedule/cost/cost_cycles.h"

namespace tile {
namespace {

// [race] and [manual]: cost_cycles.h.
constexpr double kScatteredLaneCycles = 1.2;  // [race] of one lane that is stored by itself
constexpr double kFarLanes = 2;  // [race] times as much for lanes of a window in lines of their own
constexpr int64_t kComponents = 4;  // the largest stride that is read whole and told apart
constexpr double kMostPicked = 4;   // registers that lanes pick from: what permutations reach

}  // namespace

// The aggregation adds a product.
bool PieceModel::is_fused(const Body& body) const {
  const Node& root = body[body.results[0]];
  return contraction_.aggregation == Aggregation::sum && root.op == Op::mul &&
         root.kind == NodeKind::operation && is_float(root.type);
}

// Lines that a vector of neighbours lies in, on average: rows that are no multiple of a line begin
// anywhere.
double PieceModel::lines_of_vector(const AccessModel& a, IteratorId vector) const {
  constexpr auto kLine = static_cast<int64_t>(kCacheLine);
  int64_t apart = kLine, bytes = std::min(lanes_ * a.bytes, kLine);
  for (size_t u = 0; u < a.strides.size(); ++u) {
    bool moves = IteratorId(u) != vector && piece_.box[u] > 1;
    if (moves) apart = gcd(apart, std::abs(a.strides[u]) * a.bytes);
  }
  return 1 + static_cast<double>(std::max<int64_t>(bytes - apart, 0)) / kCacheLine;
}

double PieceModel::vector_cycles(const AccessModel& a, IteratorId vector, bool packed) const {
  if (!vector.valid()) return kLoadCycles;
  int64_t stride = a.strides[vector];
  auto lanes = static_cast<double>(lanes_);
  if (a.gathers) return lanes * kGatheredLaneCycles;
  // Lanes a line or more apart keep as many lines busy.
  if (window_ && std::abs(static_cast<double>(stride)) * a.bytes >= kCacheLine) lanes *= kFarLanes;
  if (a.store) {
    bool together = stride > 1 && stride == static_cast<int64_t>(piece_.stores.size());
    return stride == 1 || together ? 2 * kLoadCycles : lanes * kScatteredLaneCycles;
  }
  if (stride == 0 || packed) return kLoadCycles;
  if (stride == 1) return kLoadCycles * lines_of_vector(a, vector);
  // Components of pixels are read together and told apart by shifts or shuffles.
  if (stride > 1 && stride <= kComponents) return 3 * kLoadCycles;
  return lanes * kGatheredLaneCycles;
}

double PieceModel::joined_cycles(const AccessModel& a, const JoinedLanes& lanes,
                                 bool packed) const {
  int64_t length = piece_.box[lanes.last];
  int64_t inner = std::abs(a.strides[lanes.last]);
  int64_t outer = std::abs(a.strides[lanes.first]);
  if (packed) {
    outer = outer == 0 ? 0 : inner == 0 ? 1 : length;
    inner = std::min<int64_t>(inner, 1);
  }
  if (inner == 0 && outer == 0) return kLoadCycles;
  bool contiguous = inner == 1 && outer == length;
  auto all = static_cast<double>(lanes_);
  if (a.store) return contiguous ? 2 * kLoadCycles : all * kScatteredLaneCycles;
  if (a.gathers) return all * kGatheredLaneCycles;
  if (contiguous) return kLoadCycles;
  // Registers that hold what the lanes pick from, often shared by several picks.
  double span = std::ceil(static_cast<double>(outer * (lanes.rows - 1) + inner * (length - 1) + 1) /
                          static_cast<double>(lanes_));
  return span <= kMostPicked ? span * 1.5 * kLoadCycles : all * kGatheredLaneCycles;
}

double PieceModel::distinct_part(const AccessModel& a, size_t parallel_dim, int64_t rows,
                                 size_t reduction, int64_t taps) {
  int64_t row = std::abs(a.strides[parallel_dim]), tap = std::abs(a.strides[reduction]);
  if (row == 0 || rows * taps <= 1) return 1;
  // (x, t) and (x + tap, t - row), in units of what both strides are multiples of, are one element.
  int64_t unit = gcd(row, tap);
  int64_t same = std::max<int64_t>(0, rows - tap / unit) * std::max<int64_t>(0, taps - row / unit);
  return 1 - static_cast<double>(same) / static_cast<double>(rows * taps);
}

bool PieceModel::slides(size_t parallel_dim, size_t reduction) const {
  return std::any_of(accesses_.begin(), accesses_.end(), [&](const AccessModel& a) {
    return !a.store && !a.gathers && a.strides[reduction] != 0 &&
           distinct_part(a, parallel_dim, piece_.box[parallel_dim], reduction,
                         piece_.box[reduction]) < 1;
  });
}

// Of the reads of one step those that are made: a window's taps that are written out read what the
// rows of a tile share once.
double PieceModel::shared_part(const PieceSchedule& s, const TileShape& t, const AccessModel& a,
                               const std::vector<double>& counts) const {
  double part = 1;
  for (const Loop& l : s.reduce) {
    if (l.binding != Binding::unroll || l.step != 1) continue;
    for (size_t j = 0; j < t.iterators.size(); ++j) {
      IteratorId u(t.iterators[j]);
      if (u == t.vector || u == t.joined) continue;
      size_t reduction = l.iterator.index();
      part *= distinct_part(a, t.iterators[j], static_cast<int64_t>(counts[j]), reduction,
                            piece_.box[reduction]);
    }
  }
  return part;
}

bool PieceModel::turns(const AccessModel& a, IteratorId vector, size_t rows) {
  if (!vector.valid() || IteratorId(rows) == vector || a.store || a.gathers) return false;
  return a.strides[rows] == 1 && std::abs(a.strides[vector]) > kLanesTogether;
}

int64_t PieceModel::transposed_rows(const AccessModel& a, const TileShape& t) {
  for (size_t j = 0; j < t.iterators.size() && t.turned.valid(); ++j) {
    bool unrolled = IteratorId(t.iterators[j]) == t.turned;
    if (unrolled && turns(a, t.vector, t.iterators[j])) return t.blocks[j];
  }
  return 1;
}

// A vector's part of reading a block's rows, and of turning them.
double PieceModel::transpose_cycles(int64_t rows) const {
  auto lanes = static_cast<double>(lanes_);
  return lanes * kLoadCycles / static_cast<double>(rows) + std::log2(lanes) * kOperationCycles;
}

double PieceModel::access_cycles(const AccessModel& a, const TileShape& t, bool packed) const {
  if (int64_t rows = transposed_rows(a, t); rows > 1 && !packed) return transpose_cycles(rows);
  if (!t.joined.valid()) return vector_cycles(a, t.vector, packed);
  return joined_cycles(a, {t.joined, t.vector, t.rows}, packed);
}

bool PieceModel::is_packed(const PieceSchedule& s, size_t load) {
  return std::any_of(s.packings.begin(), s.packings.end(),
                     [&](const Packing& p) { return p.load == load; });
}

// Cycles of one vector of groups of neighbours; `cycles`: of a vector of elements. Unless they are
// packed, or one scalar that memory has so, they are joined by a shift and an `or` each.
double PieceModel::group_cycles(const PieceSchedule& s, const TileShape& t, size_t load,
                                double cycles) const {
  const AccessModel& a = accesses_[load];
  int64_t stride = a.strides[s.reduce.back().iterator];
  bool scalar = !t.vector.valid() || a.strides[t.vector] == 0;
  if (is_packed(s, load) || (scalar && stride == 1)) return cycles;
  auto group = static_cast<double>(t.group);
  return group * cycles + 3 * (group - 1) * kOperationCycles;
}

}  // namespace tile
