// What constants alone decide in a body.
#pragma once

#include "core/ir/bound.h"

namespace tile {

// The piece's body, tidied, with exact operations on literals computed, choices on literals made,
// elements of constant tensors at literal places read, literals known inside loops, and powers of
// -1 to 4 as products.
Body with_constants_folded(const BoundProgram& program, const Piece& piece);

}  // namespace tile
