// The cost of much code: compiling takes time in proportion to the bodies written out, a tenth of a
// millisecond each, which a short kernel spares only after tens of thousands of runs.
#include <algorithm>
#include <cmath>

#include "core/schedule/cost/cost.h"

namespace tile {
namespace {

// Half the code is worth this part of a short kernel's time, and nothing of one that takes twice
// kShortNanoseconds. Measured: compile times (`tile-micro`) against runs, by `tile-bench study`.
constexpr double kHalfTheCode = 0.03;
constexpr double kShortNanoseconds = 4000;
constexpr double kLittleCodeVectors = 8;  // less of them spares nothing

}  // namespace

// Vectors that the code of all register tiles names: of full ones, and of each kind of short ones.
double PieceModel::vectors_written(const TileShape& t) const {
  double vectors = 1;
  for (size_t j = 0; j < t.iterators.size(); ++j) {
    int64_t extent = piece_.box[t.iterators[j]], block = t.blocks[j];
    double full = extent >= block ? vectors_of(t, t.iterators[j], block) : 0;
    int64_t rest = extent % block;
    vectors *= full + (rest > 0 ? vectors_of(t, t.iterators[j], rest) : 0);
  }
  return vectors;
}

double PieceModel::code_factor(const TileShape& t, double cycles) const {
  double halvings = std::log2(std::max(vectors_written(t) / kLittleCodeVectors, 1.0));
  double length = cycles * cycle_ns_ / kShortNanoseconds;
  return 1 + kHalfTheCode * halvings * std::clamp(2 - length, 0.0, 1.0);
}

}  // namespace tile
