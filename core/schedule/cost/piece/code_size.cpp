// The cost of much code: compiling takes time in proportion to the bodies written out, a tenth of a
// millisecond each, which a short kernel spares only after tens of thousands of runs.
#include "core/schedule/cost/piece/code_size.h"

#include <algorithm>
#include <cmath>

namespace tile {
namespace {

// Half the code is worth this part of a short kernel's time, and nothing of one that takes twice
// kShortNanoseconds. Measured: compile times (`tile-micro`) against runs, by `tile-bench study`.
constexpr double kHalfTheCode = 0.03;
constexpr double kShortNanoseconds = 4000;
constexpr double kLittleCodeVectors = 8;  // less of them spares nothing

// Vectors that the code of all register tiles names: of full ones, and of each kind of short ones.
double vectors_written(const PieceFacts& facts, const TileShape& t) {
  double vectors = 1;
  for (size_t j = 0; j < t.iterators.size(); ++j) {
    int64_t extent = facts.piece.box[t.iterators[j]], block = t.blocks[j];
    double full = extent >= block ? t.vectors_of(facts, t.iterators[j], block) : 0;
    int64_t rest = extent % block;
    vectors *= full + (rest > 0 ? t.vectors_of(facts, t.iterators[j], rest) : 0);
  }
  return vectors;
}

}  // namespace

double code_factor(const PieceFacts& facts, const TileShape& t, double cycles) {
  double halvings = std::log2(std::max(vectors_written(facts, t) / kLittleCodeVectors, 1.0));
  double length = cycles * facts.cycle_ns / kShortNanoseconds;
  return 1 + kHalfTheCode * halvings * std::clamp(2 - length, 0.0, 1.0);
}

}  // namespace tile
