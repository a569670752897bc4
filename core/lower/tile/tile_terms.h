// What a point adds to the accumulators of its tile.
#pragma once

#include "core/lower/tile/dot_lowering.h"

namespace tile::lowering {

class TileTerms {
 public:
  TileTerms(const PieceContext& context, const PieceValues& values,
            const Accumulators& accumulators, const DotLowering& dots)
      : c_(context), values_(values), accumulators_(accumulators), dots_(dots) {}

  nest::Block accumulate(const State& s) const;
  // As accumulate, for forms whose loops enforce no condition.
  nest::Block accumulate_everywhere(const State& s) const;
  // target = target combined with `from`; target = from.
  nest::Statement combined(nest::Access target, nest::Access from) const;
  nest::Statement copied(nest::Access target, nest::Access from) const;

 private:
  const PieceContext& c_;
  const PieceValues& values_;
  const Accumulators& accumulators_;
  const DotLowering& dots_;
};

}  // namespace tile::lowering
