// The register tile.
#include "core/lower/piece/tile_lowering.h"

namespace tile::lowering {

using nest::Block;

Block TileLowering::finish(const State& s) {
  if (c_.frame.running.contains(StageId(c_.stage))) return maximum_.raise(s);
  Block done = tile_loops(c_, s, [&](const State& at) { return results_.results(at); });
  if (!c_.blocked) return done;
  nest::If choice;
  choice.predicate = partials_.last_block(s);
  choice.then = std::move(done);
  choice.otherwise = tile_loops(c_, s, [&](const State& at) { return partials_.kept(at); });
  return {statement(std::move(choice))};
}

// Cells that take the value of the one before: windows and scans.
Block TileLowering::carried(const State& s) {
  bool lanes = c_.carried_loops > 0;
  if (window_form(c_.piece, c_.contraction)) {
    return lanes ? window_.window_lanes(s) : window_.window_loop(s);
  }
  return lanes ? scan_.carried_lanes(s) : scan_.carried_loop(s);
}

Block TileLowering::reduced(const State& s) {
  if (c_.tiles) {
    Block out = amx_.start_tiles(s);
    append(out, reductions_.reduce_loops(0, s));
    append(out, amx_.finish_tiles(s));
    return out;
  }
  Block out = partials_.initialise(s);
  append(out, dots_.start_corrections(s));
  append(out, reductions_.reduce_loops(0, s));
  append(out, accumulators_.combine_copies(s));
  append(out, dots_.subtract_corrections(s));
  append(out, partials_.join(s));
  append(out, finish(s));
  return out;
}

Block TileLowering::region(const State& s) {
  Block inside;
  if (c_.schedule.carried.valid()) {
    inside = carried(s);
  } else if (c_.tiles || c_.reduces) {
    inside = reduced(s);
  } else {
    inside = tile_loops(c_, s, [&](const State& at) { return results_.results(at); });
  }
  Block out = results_.allocations();
  append(out, std::move(inside));
  return only_if(cells_conditions(s), std::move(out));
}

// Expressions that are all >= 0 wherever a cell of the tile may be in the domain: a tile of cells
// outside has nothing to do.
std::vector<Expr> TileLowering::cells_conditions(const State& s) const {
  std::vector<Expr> all;
  // What a running maximum makes of its cells is read by all sums that follow it.
  bool sums =
      c_.reduces && !is_gpu(c_.frame.target) && !c_.frame.running.contains(StageId(c_.stage));
  for (const PlacedConstraint& p : c_.constraints) {
    bool whole = p.place == Place::outer, tiled = p.place == Place::tile && sums;
    if (!p.parallel_dims_only || c_.schedule.carried.valid() || !(whole || tiled)) continue;
    std::vector<Expr> more =
        whole ? values_.conditions_at(*p.constraint, s) : values_.possible_at(*p.constraint, s);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace tile::lowering
