// The form that most statements have in normal form.
#pragma once

#include "core/ir/bound.h"

namespace tile {

// One piece, one result, and zero in the cells that no point reaches.
inline bool is_plain_contraction(const Contraction& c) {
  return c.normalized && c.pieces.size() == 1 && c.outputs.size() == 1 && !c.fill;
}

}  // namespace tile
