// The loops over a tile's reductions, with the tests of whole tiles at the domain's borders.
#pragma once

#include "core/lower/piece/borders.h"
#include "core/lower/piece/reduction_trips.h"
#include "core/lower/tile/amx_lowering.h"

namespace tile::lowering {

class ReductionLowering : PieceForm {
 public:
  ReductionLowering(TileParts& parts, AmxLowering& amx)
      : PieceForm(parts),
        amx_(amx),
        borders_(parts.context, parts.values),
        trips_(parts.context, parts.values) {}

  // The loops of `reduce` from number i on, around the tile's loops and what they accumulate.
  nest::Block reduce_loops(size_t i, const State& s);

 private:
  nest::Block reduce_inside(size_t i, const State& s);
  nest::Block reduce_loop(size_t i, const State& s);
  nest::Block trips_of(const std::string& name, const Trips& trips, const State& s,
                       const std::function<nest::Block(const State&, const Expr&)>& inside) const;
  nest::Block bounded_loop(size_t i, State s);
  nest::Block vector_reduction(size_t i, const State& s);
  nest::Block test_whole_tile(size_t i, const State& s);
  nest::Block test_all_taps(size_t i, const State& s);
  // The next loop over the same iterator wants blocks of constant size.
  bool unroll_follows(size_t reduce) const;
  // Exact bounds of a reduction from the conditions placed at its loop: values in [lo, lo + size)
  // of its current block.
  void bounds_of(IteratorId iterator, const State& s, Expr& lo, Expr& size) const;

  AmxLowering& amx_;
  Borders borders_;
  ReductionTrips trips_;
};

}  // namespace tile::lowering
