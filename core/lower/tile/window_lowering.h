// Sliding windows. The values along the parallel dimension fall into blocks as long as the window:
// a cell's window is the end of one block and the beginning of the next (van Herk, Gil and Werman).
// Sums of the ends are kept for one block; sums of the beginnings grow with the cells.
#pragma once

#include <vector>

#include "core/kernel/forms/window.h"
#include "core/lower/tile/tile_parts.h"

namespace tile::lowering {

class WindowLowering : PieceForm {
 public:
  explicit WindowLowering(TileParts& parts) : PieceForm(parts) {}

  nest::Block window_loop(const State& s);
  // The same in vectors along the parallel dimension.
  nest::Block window_lanes(const State& s);

 private:
  // For each value that the window sums: the register sum so far, the register that takes the whole
  // window, and the sums of the block's ends.
  struct WindowPart {
    Aggregation how = Aggregation::sum;
    DType type = DType::f32;
    nest::BufferId sum, whole, suffixes;
  };
  void make_window_parts(const WindowForm& form);
  nest::Block window_block(const WindowForm& form, const Expr& first, int64_t cells,
                           const State& s);
  nest::Block window_starts(const State& s) const;
  nest::Access sum_so_far(size_t part, const State& s) const;
  nest::Block keep_suffix(const Expr& place, const State& s) const;
  nest::Access kept_suffix(size_t part, const Expr& place, const State& s) const;
  nest::Block add_window_value(const WindowForm& form, const State& s) const;
  nest::Block finish_window(const WindowForm& form, const Expr& place, bool joined, const State& s);
  // What is made of the cell's whole window.
  nest::Block window_results(const WindowForm& form, const State& cell);

  std::vector<WindowPart> window_;
};

}  // namespace tile::lowering
