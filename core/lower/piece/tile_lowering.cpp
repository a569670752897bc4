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
  nest::If guard;
  for (const PlacedConstraint& p : c_.constraints) {
    if (p.place != Place::outer || c_.schedule.carried.valid()) continue;
    std::vector<Expr> more = values_.conditions_at(*p.constraint, s);
    guard.nonnegative.insert(guard.nonnegative.end(), more.begin(), more.end());
  }
  if (guard.nonnegative.empty()) return out;
  guard.then = std::move(out);
  return {statement(std::move(guard))};
}

}  // namespace tile::lowering
