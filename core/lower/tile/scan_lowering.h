// Carried reductions: one serial loop over the cells of a prefix or suffix reduction, one by one or
// in vectors.
#pragma once

#include "core/kernel/forms/scan.h"
#include "core/lower/tile/partial_sums.h"

namespace tile::lowering {

class ScanLowering : PieceForm {
 public:
  ScanLowering(TileParts& parts, const PartialSums& partials)
      : PieceForm(parts), partials_(partials) {}

  nest::Block carried_loop(const State& s);
  // Vectors of neighbouring cells, which take their running values together.
  nest::Block carried_lanes(const State& s);
  // The cells of a vector, whose position is the step.
  Leaf next_cells(const ScanForm& form);
  // What `add` makes of the value that the cell `step` of the way has beside those of the cell
  // before, where there is one.
  nest::Block next_value(const ScanForm& form, const Expr& step, State s, const Leaf& add) const;

 private:
  nest::Block next_cell(const ScanForm& form, const Expr& step, State s);
  nest::Block first_values(const ScanForm& form, const State& s) const;

  const PartialSums& partials_;
};

}  // namespace tile::lowering
