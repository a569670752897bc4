// Sums, products, maxima and minima over windows that slide along one parallel dimension: each
// value belongs to the windows of several cells, so that suffixes of one block of values and
// prefixes of the next give every window in a few steps, however long it is. Nothing is subtracted:
// an infinity or a large value stays in the windows that hold it.
#pragma once

#include <optional>

#include "core/ir/analysis/index_value.h"
#include "core/kernel/kernel.h"

namespace tile {

struct WindowForm {
  size_t parallel_dim = 0;
  // The window is a loop of the body: position of the fold node; -1: it is the piece's one
  // reduction.
  NodeId fold;
  int64_t longest = 0;  // of any window
  double expected = 0;  // a likely length
};
// nullopt: the piece is no such reduction, or its values depend on more than the sum of the
// parallel dimension and the place in the window.
std::optional<WindowForm> window_form(const Piece& piece, const Contraction& contraction);

// The parallel dimension along which cells may be computed one after another on the target: of a
// prefix, a suffix (scan.h) or a window. Windows whose length is a run-time parameter need a target
// that reads it at launch.
std::optional<size_t> carried_parallel_dim(const Piece& piece, const Contraction& contraction,
                                           const Target& target);

}  // namespace tile
