#include "core/distribute/overlap/replicated.h"

#include <algorithm>

namespace tile {
namespace {

// Whether both compute some cells of one tensor: iterators have their values of the undivided
// program, so that the same store is to the same cell.
bool share_cells(const Contraction& a, const Contraction& b) {
  for (const Piece& piece : a.pieces) {
    for (const Piece& other : b.pieces) {
      if (same_cells(piece.stores[0], other.stores[0])) return true;
    }
  }
  return false;
}

// Whether what the contraction gives depends, in its last bits, on the order of the terms.
bool depends_on_order(const Contraction& c) {
  bool adds = c.aggregation == Aggregation::sum || c.aggregation == Aggregation::product;
  return adds && is_float(c.accumulator);
}

}  // namespace

bool same_cells(const Access& a, const Access& b) {
  return std::ranges::equal(a.index, b.index, [](const Index& x, const Index& y) {
    return x.value < 0 && y.value < 0 && x.affine == y.affine;
  });
}

bool adds_as_others(const std::vector<RankProgram>& ranks, size_t rank, const Contraction& c) {
  if (!depends_on_order(c)) return false;
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (r == rank) continue;
    for (const BoundStatement& statement : ranks[r].program.statements) {
      const auto* other = std::get_if<Contraction>(&statement);
      if (other != nullptr && other->outputs[0] == c.outputs[0] && share_cells(c, *other)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace tile
