// Changing the iterators of a piece.
#pragma once

#include "core/ir/bound.h"
#include "core/lattice/lattice.h"

namespace tile {

// The piece over new iterators: every affine form and every index in the body is rewritten.
// Constraints stay as they are, rewritten; box and parallel dimensions are the caller's. An
// iterator that stays itself (up to a shift) keeps its name, others get a fresh one.
Piece substituted(Piece piece, const lattice::Substitution& substitution);

// The position of an equal access in the list, appended if there is none.
int position_of(std::vector<Access>& loads, Access access);
// Takes out the accesses that the body does not read: of a normalized piece, whose domain does not
// need them.
void drop_unused_loads(Piece& piece);

// Appends the value of a form with integer coefficients in i64 arithmetic.
NodeId affine_value(Body& body, const Affine& form, Span span);

// The piece's constraints as a lattice system, and back.
lattice::System system_of(const Piece& piece);
std::vector<Constraint> constraints_of(const lattice::System& system);

}  // namespace tile
