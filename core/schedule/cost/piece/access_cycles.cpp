// The cycles of single accesses of a register tile: vectors of neighbours, lanes that memory has
// apart, blocks that registers transpose.
#include "core/schedule/cost/piece/access_cycles.h"

#include <algorithm>
#include <cmath>

#include "core/kernel/geometry.h"
#include "core/schedule/facts/cost_cycles.h"

namespace tile {
namespace {

// [race] and [manual]: cost_cycles.h.
constexpr double kScatteredLaneCycles = 1.2;  // [race] of one lane that is stored by itself
constexpr double kFarLanes = 2;  // [race] times as much for lanes of a window in lines of their own
constexpr int64_t kComponents = 4;  // the largest stride that is read whole and told apart
constexpr double kMostPicked = 4;   // registers that lanes pick from: what permutations reach

}  // namespace

// Lines that a vector of neighbours lies in, on average: rows that are no multiple of a line begin
// anywhere.
double AccessCycles::lines_of_vector(const AccessFacts& a, IteratorId vector) const {
  constexpr auto kLine = static_cast<int64_t>(kCacheLine);
  int64_t apart = kLine, bytes = std::min(f_.lanes * a.bytes, kLine);
  for (size_t u = 0; u < a.strides.size(); ++u) {
    bool moves = IteratorId(u) != vector && f_.piece.box[u] > 1;
    if (moves) apart = gcd(apart, std::abs(a.strides[u]) * a.bytes);
  }
  return 1 + static_cast<double>(std::max<int64_t>(bytes - apart, 0)) / kCacheLine;
}

double AccessCycles::vector_cycles(const AccessFacts& a, IteratorId vector, bool packed) const {
  if (!vector.valid()) return kLoadCycles;
  int64_t stride = a.strides[vector];
  auto lanes = static_cast<double>(f_.lanes);
  if (a.gathers) return lanes * kGatheredLaneCycles;
  // Lanes a line or more apart keep as many lines busy.
  if (f_.is_window && std::abs(static_cast<double>(stride)) * a.bytes >= kCacheLine)
    lanes *= kFarLanes;
  if (a.store) {
    bool together = stride > 1 && stride == static_cast<int64_t>(f_.piece.stores.size());
    return stride == 1 || together ? 2 * kLoadCycles : lanes * kScatteredLaneCycles;
  }
  if (stride == 0 || packed) return kLoadCycles;
  if (stride == 1) return kLoadCycles * lines_of_vector(a, vector);
  // Components of pixels are read together and told apart by shifts or shuffles.
  if (stride > 1 && stride <= kComponents) return 3 * kLoadCycles;
  return lanes * kGatheredLaneCycles;
}

double AccessCycles::joined_cycles(const AccessFacts& a, const JoinedLanes& lanes,
                                   bool packed) const {
  int64_t length = f_.piece.box[lanes.last];
  int64_t inner = std::abs(a.strides[lanes.last]);
  int64_t outer = std::abs(a.strides[lanes.first]);
  if (packed) {
    outer = outer == 0 ? 0 : inner == 0 ? 1 : length;
    inner = std::min<int64_t>(inner, 1);
  }
  if (inner == 0 && outer == 0) return kLoadCycles;
  bool contiguous = inner == 1 && outer == length;
  auto all = static_cast<double>(f_.lanes);
  if (a.store) return contiguous ? 2 * kLoadCycles : all * kScatteredLaneCycles;
  if (a.gathers) return all * kGatheredLaneCycles;
  if (contiguous) return kLoadCycles;
  // Registers that hold what the lanes pick from, often shared by several picks.
  double span = std::ceil(static_cast<double>(outer * (lanes.rows - 1) + inner * (length - 1) + 1) /
                          static_cast<double>(f_.lanes));
  return span <= kMostPicked ? span * 1.5 * kLoadCycles : all * kGatheredLaneCycles;
}

// A vector's part of reading a block's rows, and of turning them.
double AccessCycles::transpose_cycles(int64_t rows) const {
  auto lanes = static_cast<double>(f_.lanes);
  return lanes * kLoadCycles / static_cast<double>(rows) + std::log2(lanes) * kOperationCycles;
}

double AccessCycles::load_cycles(const AccessFacts& a, const TileShape& t, bool packed) const {
  if (int64_t rows = t.transposed_rows(a); rows > 1 && !packed) return transpose_cycles(rows);
  if (!t.joined.valid()) return vector_cycles(a, t.vector, packed);
  return joined_cycles(a, {t.joined, t.vector, t.rows}, packed);
}

double AccessCycles::store_cycles(const AccessFacts& a, const TileShape& t) const {
  IteratorId vector = f_.is_parallel_dim(t.vector) ? t.vector : IteratorId();
  if (!t.joined.valid()) return vector_cycles(a, vector, false);
  return joined_cycles(a, {t.joined, vector, t.rows}, false);
}

}  // namespace tile
