// What the forms of a piece are made of. A form (a register tile, a scan, a window, a GPU's matrix
// product …) is a class of its own; it sees these parts, and other forms only if it holds them.
#pragma once

#include "core/lower/context/piece_context.h"
#include "core/lower/context/piece_values.h"
#include "core/lower/context/tile_loops.h"
#include "core/lower/launch/nest_builders.h"
#include "core/lower/tile/accumulators.h"
#include "core/lower/tile/dot_lowering.h"
#include "core/lower/tile/tile_results.h"
#include "core/lower/tile/tile_terms.h"

namespace tile::lowering {

struct TileParts {
  TileParts(Frame& frame, size_t stage, size_t piece, const PieceSchedule& schedule)
      : context(frame, stage, piece, schedule) {}
  TileParts(const TileParts&) = delete;  // the parts name each other
  TileParts& operator=(const TileParts&) = delete;

  PieceContext context;
  PieceValues values{context};
  Accumulators accumulators{context};
  DotLowering dots{context, values, accumulators};
  TileTerms terms{context, values, accumulators, dots};
  TileResults results{context, values, accumulators};
};

// The base of the forms.
class PieceForm {
 protected:
  explicit PieceForm(TileParts& parts)
      : c_(parts.context),
        values_(parts.values),
        accumulators_(parts.accumulators),
        dots_(parts.dots),
        terms_(parts.terms),
        results_(parts.results) {}

  PieceContext& c_;
  PieceValues& values_;
  Accumulators& accumulators_;
  const DotLowering& dots_;
  const TileTerms& terms_;
  TileResults& results_;
};

}  // namespace tile::lowering
