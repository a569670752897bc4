// Candidates of a piece: the best register tiles, and the families of schedules around each.
#include "core/schedule/space/piece/piece_space.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "core/kernel/forms/amx_tiles.h"
#include "core/schedule/cost/piece/packing_cost.h"
#include "core/schedule/space/piece/tiling_families.h"

namespace tile {
namespace {

class PieceSpace {
 public:
  PieceSpace(const PieceModel& model, const Breadth& breadth)
      : model_(model), breadth_(breadth), found_(model) {}
  std::vector<RankedPiece> ranked();

 private:
  // Schedules of dots of such neighbours, or in registers that hold matrices.
  void tiled_with(const std::optional<DotForm>& dot, bool amx);
  void tiled(const TilingParts& parts) const;
  void around(const TilingParts& parts, const RegisterTile& t, bool blocked) const;
  double best_ns(const TilingParts& parts, const RegisterTile& t) const;
  std::vector<RegisterTile> best_tiles(const TilingParts& parts) const;

  const PieceModel& model_;
  const Breadth breadth_;
  CandidateList found_;
};

std::vector<RankedPiece> PieceSpace::ranked() {
  const PieceFacts& f = model_.facts();
  TilingParts plain(found_, std::nullopt, false);
  consider_carried_loops(plain);
  tiled(plain);
  for (int64_t group : {2, 4}) {
    std::optional<DotForm> dot = dot_form(f.piece, f.contraction, f.kernel.tensors, group);
    if (dot && dot_per_ns(*dot, f.target) > 0) tiled_with(dot, false);
  }
  std::optional<DotForm> factors = tile_factors(f.piece, f.contraction, f.kernel.tensors);
  if (factors && tiles_per_ns(*factors, f.target) > 0) tiled_with(factors, true);
  return found_.ranked();
}

void PieceSpace::tiled_with(const std::optional<DotForm>& dot, bool amx) {
  TilingParts parts(found_, dot, amx);
  if (parts.context.dot_iterator.valid()) tiled(parts);
}

void PieceSpace::tiled(const TilingParts& parts) const {
  std::vector<RegisterTile> tiles = best_tiles(parts);
  for (size_t i = 0; i < tiles.size(); ++i) around(parts, tiles[i], i < breadth_.blocked);
}

// The loops around one register tile, with blocks for the caches or without.
void PieceSpace::around(const TilingParts& parts, const RegisterTile& t, bool blocked) const {
  bool reduces = model_.facts().reduces;
  for (const std::vector<Loop>& outer : parts.orders.all(t)) {
    PieceSchedule s = parts.inner.schedule(t, outer);
    reduces ? parts.consider(t, s) : parts.found.consider(s);
    if (reduces && blocked) consider_operand_panels(parts, t, s);
  }
  if (!reduces) return consider_transposed_copies(parts, t);
  if (!blocked) return;
  consider_cache_blocks(parts, t);
  consider_short_reduction_blocks(parts, t);
  consider_kept_sums(parts, t);
}

// The cycles of the tile itself, with copies of its operands where these spare more; infinite where
// it is not legal.
double PieceSpace::best_ns(const TilingParts& parts, const RegisterTile& t) const {
  PieceSchedule s = parts.inner.schedule(t, parts.orders.natural(t));
  double ns = std::numeric_limits<double>::infinity();
  if (found_.is_legal(s)) ns = model_.compute_ns(s);
  if (!t.vector.valid() || !model_.facts().reduces) return ns;
  parts.packing.pack(t, s, 0);
  auto with_copies = [&] {
    if (s.packings.empty() || !found_.is_legal(s)) return;
    ns = std::min(ns, model_.compute_ns(s) + packing_ns(model_.facts(), s));
  };
  with_copies();
  // Of operands that scalars are read from a copy may cost more than it spares.
  bool fewer = std::erase_if(s.packings,
                             [&](const Packing& p) { return !OperandPacking::along(t, p, s); }) > 0;
  if (fewer) with_copies();
  return ns;
}

// The best tiles by their own cycles, in the simplest order of loops.
std::vector<RegisterTile> PieceSpace::best_tiles(const TilingParts& parts) const {
  std::vector<std::pair<double, RegisterTile>> scored;
  const PieceFacts& facts = model_.facts();
  for (RegisterTile& t : parts.context.amx ? amx_register_tiles(facts) : register_tiles(facts)) {
    double ns = best_ns(parts, t);
    if (std::isfinite(ns)) scored.emplace_back(ns, std::move(t));
  }
  std::stable_sort(scored.begin(), scored.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<RegisterTile> best;
  size_t joined = 0;  // leave room for others
  for (auto& [ns, tile] : scored) {
    if (best.size() == breadth_.tiles) break;
    if (tile.joined.valid() && ++joined > breadth_.tiles / 2) continue;
    best.push_back(std::move(tile));
  }
  return best;
}

}  // namespace

std::vector<RankedPiece> piece_candidates(const Kernel& kernel, size_t stage, size_t piece,
                                          const Target& target, const Breadth& breadth) {
  const Contraction& c = kernel.stages[stage].contraction;
  PieceModel model(c.pieces[piece], c, kernel, target);
  return PieceSpace(model, breadth).ranked();
}

}  // namespace tile
