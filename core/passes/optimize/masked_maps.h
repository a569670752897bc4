// Pointwise statements under a condition: O[s, t] = f(A[s]) where 0 <= s - t < S.
#pragma once

#include <optional>

#include "core/ir/bound.h"

namespace tile {

// The statement's piece over all cells of its result, a temporary, with what leaves cells out as
// conditions on them, some at least; all that it loads are elements of tensors where they do not
// hold, too. nullopt: it is no such statement.
std::optional<Piece> masked_map(const BoundProgram& program, const Contraction& c);
// The same of one that may be without conditions.
std::optional<Piece> whole_map(const BoundProgram& program, const Contraction& c);

}  // namespace tile
