// The register tile: which form it has, its start, its reduction and its end.
#pragma once

#include "core/lower/piece/reduction_lowering.h"
#include "core/lower/tile/amx_lowering.h"
#include "core/lower/tile/running_maximum.h"
#include "core/lower/tile/scan_lowering.h"
#include "core/lower/tile/window_lowering.h"

namespace tile::lowering {

class TileLowering : PieceForm {
 public:
  TileLowering(TileParts& parts, const PartialSums& partials, ScanLowering& scan)
      : PieceForm(parts),
        partials_(partials),
        scan_(scan),
        window_(parts),
        maximum_(parts, partials),
        amx_(parts, partials),
        reductions_(parts, amx_) {}

  // One tile, with all its reductions, in the state inside the outer loops.
  nest::Block region(const State& s);

 private:
  nest::Block carried(const State& s);
  nest::Block reduced(const State& s);
  nest::Block finish(const State& s);
  std::vector<Expr> cells_conditions(const State& s) const;

  const PartialSums& partials_;
  ScanLowering& scan_;
  WindowLowering window_;
  RunningMaximum maximum_;
  AmxLowering amx_;
  ReductionLowering reductions_;
};

}  // namespace tile::lowering
