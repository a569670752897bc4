#include "core/schedule/facts/loop_ranges.h"

#include <algorithm>

#include "core/kernel/forms/amx_tiles.h"
#include "core/kernel/geometry.h"

namespace tile {

LoopRanges::LoopRanges(const Piece& piece, const PieceSchedule& s)
    : iterators_(piece.box.size()), ranges_(piece.box) {
  for (const auto* part : {&s.outer, &s.reduce, &s.tile}) {
    for (const Loop& l : *part) {
      // What registers that hold matrices read and multiply comes at once.
      bool inside = uses_tiles(s) &&
                    (part == &s.tile || l.binding == Binding::matrix || l.binding == Binding::dot);
      if (!inside) loops_.push_back(&l);
    }
  }
  ranges_.resize((loops_.size() + 1) * iterators_);
  for (size_t i = 0; i < loops_.size(); ++i) {
    int64_t* range = ranges_.data() + i * iterators_;
    std::copy_n(range, iterators_, range + iterators_);
    int64_t& n = range[iterators_ + loops_[i]->iterator.index()];
    trips_.push_back(static_cast<double>(ceil_div(n, loops_[i]->step)));
    n = std::min(n, loops_[i]->step);
  }
}

}  // namespace tile
