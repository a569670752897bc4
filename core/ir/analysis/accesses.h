// Where a piece says something of an iterator: indices, conditions and values of its body.
#pragma once

#include <utility>
#include <vector>

#include "core/ir/bound.h"

namespace tile {

// Whether some affine index of the access changes with the iterator.
bool moves_with(const Access& access, size_t iterator);
inline bool moves_with(const Access& access, IteratorId u) { return moves_with(access, u.index()); }
// The same where an index that is a value changes with every iterator.
bool may_move_with(const Access& access, size_t iterator);
// Whether the index is an affine form, and no point is outside of the dimension.
bool is_plain_index(const Index& index);
// Whether the index is a constant that is in range by construction.
bool is_constant_index(const Index& index);
// The iterator that the index is, alone; none: a constant or anything else.
IteratorId sole_iterator(const Index& index, size_t iterators);
inline IteratorId sole_iterator(const Index& index, const Piece& piece) {
  return sole_iterator(index, piece.iterators.size());
}

// Whether some condition of the piece changes with the iterator.
bool is_constrained(const Piece& piece, size_t iterator);
inline bool is_constrained(const Piece& piece, IteratorId u) {
  return is_constrained(piece, u.index());
}
// Whether a node of the body, regions included, is the iterator's value.
bool names_index(const Body& body, size_t iterator);

// Leaves out of the access's forms the iterators behind the first so many, which none of them moves
// with.
void keep_iterators(Access& access, size_t count);

// Drops the loads that no node of the body reads, regions included, and numbers the others anew.
// The accesses may be a program's or a nest's.
template <class Load>
void drop_unread(Body& body, std::vector<Load>& loads) {
  std::vector<int> slots(loads.size(), -1);
  std::vector<Load> kept;
  change_nodes(body, [&](Node& node) {
    if (node.kind != NodeKind::load) return;
    int& slot = slots[node.slot];
    if (slot < 0) {
      slot = static_cast<int>(kept.size());
      kept.push_back(loads[node.slot]);
    }
    node.slot = slot;
  });
  loads = std::move(kept);
}

}  // namespace tile
