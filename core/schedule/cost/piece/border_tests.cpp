#include "core/schedule/cost/piece/border_tests.h"

#include <algorithm>

#include "core/ir/analysis/accesses.h"
#include "core/support/checked.h"

namespace tile {
namespace {

// [race] More time that a tile takes, as a share of it: where its points are tested, where rows are
// left out instead, where lanes of pairs are tested, which then cannot share reads, where lanes
// are.
constexpr double kTestedTile = 0.7;
constexpr double kShortenedTile = 0.1;
constexpr double kGatheredTile = 16;
constexpr double kMaskedTile = 0.6;

}  // namespace

// Loops inside a border's test run without the rows that it leaves out: there are reductions
// besides those of the condition, which names one iterator of the tile alone.
bool BorderTests::repeats_border(const Constraint& c) const {
  int64_t named = 0, inside = 1;
  for (size_t u : t_.iterators) named += c.form.coefficient(u).is_zero() ? 0 : 1;
  for (size_t r = f_.piece.parallel_dims; r < f_.piece.box.size(); ++r) {
    if (!is_constrained(f_.piece, r)) inside *= f_.piece.box[r];
  }
  return named == 1 && inside > 1;
}

// Of the tiles along one of its iterators the part that may be at a border of the domain. A loop of
// one whole tile and a remainder, which windows alone fill, knows what is inside: nothing is
// tested.
double BorderTests::at_border(size_t tiled) const {
  size_t u = t_.iterators[tiled];
  int64_t extent = f_.piece.box[u], block = std::max<int64_t>(t_.blocks[tiled], 1);
  bool one = extent / block <= 1;
  bool known =
      f_.taps_only && one && std::none_of(s_.outer.begin(), s_.outer.end(), [&](const Loop& l) {
        bool runs = extent > l.step && (l.binding == Binding::parallel || l.step != block);
        return l.iterator == IteratorId(u) && runs;
      });
  return known ? 0 : std::min(1.0, 2 / static_cast<double>(ceil_div(extent, block)));
}

// Tiles at a border test their points: the first and the last of an unrolled parallel dimension
// that a condition names, every vector of lanes that it masks.
double BorderTests::factor() const {
  double factor = 1;
  for (const Constraint& c : f_.piece.constraints) {
    for (size_t j = 0; j < t_.iterators.size(); ++j) {
      size_t u = t_.iterators[j];
      if (c.form.coefficient(u).is_zero()) continue;
      bool masked = t_.has_lanes_of(u);
      double more = masked ? (t_.joined.valid() ? kGatheredTile : kMaskedTile) : kTestedTile;
      if (!masked && repeats_border(c)) more = kShortenedTile;
      factor += at_border(j) * more;
    }
  }
  return factor;
}

double BorderTests::tested_taps() const {
  double inside = 1;
  for (size_t j = 0; j < t_.iterators.size() && f_.taps_only; ++j) {
    size_t u = t_.iterators[j];
    if (is_constrained(f_.piece, u) && !t_.has_lanes_of(u)) inside *= 1 - at_border(j);
  }
  return 1 - inside;
}

}  // namespace tile
