// The forms of a piece, put together.
#include <algorithm>

#include "core/kernel/geometry.h"
#include "core/lower/piece/lowering.h"

namespace tile::lowering {

bool PieceLowering::is_empty() const {
  const Piece& piece = parts_.context.piece;
  return std::any_of(piece.box.begin(),
                     piece.box.begin() + static_cast<std::ptrdiff_t>(piece.parallel_dims),
                     [](int64_t extent) { return extent <= 0; });
}

void PieceLowering::prepare(nest::Block& out) {
  partials_.make(out);
  if (parts_.context.reduces) parts_.accumulators.make();
  parts_.results.find_attached();
}

nest::Block PieceLowering::run() {
  if (is_empty()) return {};
  nest::Block out;
  prepare(out);
  bool chained = parts_.context.parametric_tiling == 0 && is_chained(parts_.context.schedule);
  append(out, chained ? ChainedScanLowering(parts_, scan_).chained_scan() : loops_.loops());
  return out;
}

}  // namespace tile::lowering
