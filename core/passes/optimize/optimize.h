// The passes that leave out or simplify work, whatever machine runs it: one file and one function
// each, put in order by the pipeline.
#pragma once

#include "core/ir/bound.h"
#include "core/target/target.h"

namespace tile {

// Drops statements that no output needs.
void eliminate_dead_code(BoundProgram& program, const Target& target);
// Computes equal statements once; merges equal nodes of bodies.
void share_common_subexpressions(BoundProgram& program, const Target& target);
// Reads a tensor where a copy of it was read, and makes results that are copies in place.
void forward_copies(BoundProgram& program, const Target& target);
// Reads a tensor where a view of it was read that has its dimensions, but for those of one cell.
void forward_views(BoundProgram& program, const Target& target);
// Makes a sum of tensors that have values in different cells one statement with a piece for each.
void assemble_sums(BoundProgram& program, const Target& target);
// Makes a sum of sums of the same form one sum over their operands, one behind the other.
void stack_sums(BoundProgram& program, const Target& target);
// Multiplies a product's matrix by what terms are multiplied with or divided by beside both
// matrices.
void separate_factors(BoundProgram& program, const Target& target);
// Makes the conditions of a cheap pointwise statement a choice between its value and zero, so that
// it can be computed in the statements that read it.
void choose_by_conditions(BoundProgram& program, const Target& target);
// Computes a pointwise statement under a condition everywhere if all that read it do so under that
// condition.
void drop_conditions(BoundProgram& program, const Target& target);
// Substitutes a pointwise producer into the statements that read it where recomputing it costs no
// more than storing and reading it. Values stay the same bit by bit: the producer's rounding is
// kept.
void inline_pointwise(BoundProgram& program, const Target& target);
// Stores temporaries of integers in the narrowest type that holds what their bodies can compute.
void narrow_temporaries(BoundProgram& program, const Target& target);
// Computes costly functions of one byte for each of its values once, and looks them up.
void tabulate(BoundProgram& program, const Target& target);
// Computes elements whose integers all fit 8 or 16 bits in lanes of so many: an exact sum, extremum
// or choice is the same in every type that holds it.
void narrow_bodies(BoundProgram& program, const Target& target);

}  // namespace tile
