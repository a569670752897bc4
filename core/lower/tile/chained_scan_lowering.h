// One long row that threads scan in turns, each a tile of cells: a turn adds up its values, which
// brings them near; adds that to what the turns before have; and scans its cells, starting from
// there. In the nest these are three loops over the turns. A backend may run each turn's part of
// the second as soon as its part of the first and the turn before are done, and its part of the
// third right behind it, so that the values come from memory once (a doacross loop).
#pragma once

#include <vector>

#include "core/lower/tile/scan_lowering.h"

namespace tile::lowering {

class ChainedScanLowering : PieceForm {
 public:
  ChainedScanLowering(TileParts& parts, ScanLowering& scan) : PieceForm(parts), scan_(scan) {}

  nest::Block chained_scan();

 private:
  struct Chain {
    int64_t tile = 0, tiles = 0;         // cells of a turn, and how many turns there are
    State turn;                          // of the loop variable `task`
    std::vector<nest::BufferId> sums;    // by output: of the lanes of a turn's values…
    std::vector<nest::BufferId> totals;  // …of all of them, for each turn…
    std::vector<nest::BufferId> before;  // …and of what the turns before have
  };
  Chain make_chain(const ScanForm& form) const;
  nest::Block chain_totals(const ScanForm& form, const Chain& chain);
  nest::Block chain_links(const Chain& chain) const;
  nest::Block chain_cells(const ScanForm& form, const Chain& chain);

  ScanLowering& scan_;
};

}  // namespace tile::lowering
