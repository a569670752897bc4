// Pieces that are in normal form but for how their domain is written.
#pragma once

#include <optional>
#include <vector>

#include "core/ir/bound.h"

namespace tile {

struct PlainDomain {
  size_t parallel_dims = 0;
  std::vector<int64_t> box;
};
// The domain of a piece each of whose conditions says of one iterator that it lies in [0, n), and
// whose result's cells are its first iterators, in order: what `reduce` and `defract` find for it,
// without any algebra. nullopt: it is another one, or an iterator has one value or none.
std::optional<PlainDomain> plain_domain(const Piece& piece);

}  // namespace tile
