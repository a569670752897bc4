#include "core/schedule/cost/piece/tiling_cycles.h"

#include <algorithm>
#include <cmath>

#include "core/schedule/cost/piece/code_size.h"

namespace tile {
namespace {

double blocks_of_reductions(const Piece& piece, const PieceSchedule& s) {
  double blocks = 1;
  for (size_t u = piece.parallel_dims; u < piece.box.size(); ++u) {
    int64_t step = piece.box[u];
    for (const Loop& l : s.outer) {
      if (l.iterator == IteratorId(u)) step = l.step;
    }
    blocks *= std::ceil(static_cast<double>(piece.box[u]) / static_cast<double>(step));
  }
  return blocks;
}

}  // namespace

TilingCycles::TilingCycles(const PieceFacts& facts, const PieceSchedule& schedule)
    : f_(facts),
      s_(schedule),
      shape_(facts, schedule),
      tile_(facts, schedule, shape_),
      borders_(facts, schedule, shape_),
      reduction_blocks_(blocks_of_reductions(facts.piece, schedule)) {}

double TilingCycles::total(CostTerm* into) const {
  double cycles = of_steps(reduction_steps() / reduction_blocks_, into);
  double factor = code_factor(f_, shape_, cycles);
  if (into != nullptr) into->add_if("much code", cycles * (factor - 1) * f_.cycle_ns);
  return cycles * factor;
}

double TilingCycles::resuming() const { return reduction_blocks_ <= 1 ? 0 : of_steps(0, nullptr); }

// Of the whole reduction of one cell.
double TilingCycles::reduction_steps() const {
  double steps = 1;
  for (size_t u = f_.piece.parallel_dims; u < f_.piece.box.size(); ++u) {
    bool vector = IteratorId(u) == shape_.vector;
    auto extent = static_cast<double>(f_.piece.box[u]);
    bool dot = shape_.group > 1 && IteratorId(u) == s_.reduce.back().iterator;
    int64_t together = vector ? f_.lanes : dot ? shape_.group : 1;
    steps *= std::ceil(extent / static_cast<double>(together));
  }
  return steps;
}

// Of tiles that do so many steps of the reduction in each of its blocks.
double TilingCycles::of_steps(double steps, CostTerm* into) const {
  double tiles = reduction_blocks_;
  const std::vector<size_t>& tiled = shape_.iterators;
  for (size_t u = 0; u < f_.piece.parallel_dims; ++u) {
    bool inside = std::find(tiled.begin(), tiled.end(), u) != tiled.end();
    if (!inside) tiles *= static_cast<double>(f_.piece.box[u]);
  }
  double tested = borders_.tested_taps(), total = 0;
  if (tested < 1) total += (1 - tested) * all_tiles({steps, tiles, true, 1 - tested}, into);
  if (tested > 0) total += tested * all_tiles({steps, tiles, false, tested}, into);
  double border = borders_.factor();
  if (into != nullptr) into->add_if("tests at borders", total * (border - 1) * f_.cycle_ns);
  return total * border;
}

// Whole tiles, and the remainders of each iterator.
double TilingCycles::all_tiles(const TileRun& run, CostTerm* into) const {
  double total = 0;
  for (size_t corner = 0; corner < (size_t{1} << shape_.iterators.size()); ++corner) {
    std::vector<double> counts;
    double number = run.tiles;
    for (size_t j = 0; j < shape_.iterators.size(); ++j) {
      int64_t extent = f_.piece.box[shape_.iterators[j]], block = shape_.blocks[j];
      bool rest = (corner >> j & 1) != 0;
      int64_t size = rest ? extent % block : block;
      number *= static_cast<double>(rest ? (size > 0 ? 1 : 0) : extent / block);
      counts.push_back(shape_.vectors_of(f_, shape_.iterators[j], size));
    }
    if (number <= 0) continue;
    TileCycles c = tile_.of(counts, run.steps, run.taps);
    total += number * c.total;
    if (into == nullptr) continue;
    into->add(tile_term(c, f_.reduces, corner == 0 ? "whole tiles" : "remainder tiles",
                        number * run.share * f_.cycle_ns));
    into->parts.back().facts.emplace_back("tiles", number * run.share);
  }
  return total;
}

}  // namespace tile
