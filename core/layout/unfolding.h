// What unfold_rows() and unfold_taps() have in common: windows as rows of a copy. Private to
// core/layout.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "core/layout/factor_copies.h"

namespace tile::layout {

constexpr int64_t kMostUnfoldedBytes = 1 << 30;  // of a copy

// The load's dimension `d`, along which `u` moves with step 1, and the one behind it, whose `inner`
// cells another iterator walks, are seen as one: u takes the place of inner * u and that iterator.
// So do conditions on the dimension's form.
void join_dimensions(Piece& piece, size_t load, size_t d, size_t u, int64_t inner,
                     FactorCopies& copies);

// The access at the iterators of a copy, which has `place` for each of the piece's. Where it may
// leave a dimension, zero is read: along the iterator that is padded, and where a condition of the
// piece keeps it inside; `kept` gets the numbers of those.
Access read_for_copy(const Piece& piece, const Access& from, const Shape& shape,
                     const std::vector<Affine>& place, std::optional<size_t> padded,
                     std::set<size_t>& kept);

}  // namespace tile::layout
