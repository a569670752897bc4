// The tensor-level passes: one file and one function each, listed in order by pipeline.cpp.
#pragma once

#include "core/ir/bound.h"
#include "core/schedule/target.h"

namespace tile {

// Drops statements that no output needs.
void eliminate_dead_code(BoundProgram& program, const Target& target);
// Computes equal statements once; merges equal nodes of bodies.
void share_common_subexpressions(BoundProgram& program, const Target& target);
// Writes out loops inside elements that run a constant, small number of times.
void unroll_folds(BoundProgram& program, const Target& target);
// Computes what constants alone decide: exact operations, choices, elements of constant tensors.
void fold_constants(BoundProgram& program, const Target& target);
// Makes a sum, product, maximum or minimum over a constant range inside an element a reduction of
// its own, and what remains of the element a pointwise statement on its result.
void hoist_folds(BoundProgram& program, const Target& target);
// Where i / n and i % n of an index are used, makes them indices: i = n * q + r.
void split_digits(BoundProgram& program, const Target& target);
// Turns indices that are values into affine forms, decides conditions on indices and drops boundary
// rules that never act, by the ranges of a normalized piece.
void resolve_indices(BoundProgram& program, const Target& target);
// Makes the conditions of a cheap pointwise statement a choice between its value and zero, so that
// it can be computed in the statements that read it.
void choose_by_conditions(BoundProgram& program, const Target& target);
// Substitutes a pointwise producer into the statements that read it where recomputing it costs no
// more than storing and reading it. Values stay the same bit by bit: the producer's rounding is
// kept.
void inline_pointwise(BoundProgram& program, const Target& target);
// Turns the in-range rule of accesses into explicit constraints of each piece.
void gather_constraints(BoundProgram& program, const Target& target);
// Changes unknowns so that every index is an integer and the first `owners` unknowns of a piece
// determine the output cell alone. A piece without points is dropped.
void reduce(BoundProgram& program, const Target& target);
// Peels small digits into pieces with exact boxes and residual constraints: the normal form.
void defract(BoundProgram& program, const Target& target);
// Stores the components of temporaries that are tuples as arrays of their own.
void split_tuples(BoundProgram& program, const Target& target);
// Stores temporaries of integers in the narrowest type that holds what their bodies can compute.
void narrow_temporaries(BoundProgram& program, const Target& target);
// Computes costly functions of one byte for each of its values once, and looks them up.
void tabulate(BoundProgram& program, const Target& target);
// Computes elements whose integers all fit 8 or 16 bits in lanes of so many: an exact sum, extremum
// or choice is the same in every type that holds it.
void narrow_bodies(BoundProgram& program, const Target& target);
// A reduction to few cells becomes partial results over chunks and their combination, so that it
// can run in parallel and still gives the same bits on every run.
void split_reduction(BoundProgram& program, const Target& target);
// Copies a factor of a matrix product, on a GPU, to where tiles of it are fetched faster: with
// neighbours in memory that the tiles want, or with a row of terms for each output.
void arrange_factors(BoundProgram& program, const Target& target);
// Copies factors of a product of many dimensions, on a CPU, to where the dimensions of its rows,
// columns and terms stand together and are walked as one each.
void group_dimensions(BoundProgram& program, const Target& target);

}  // namespace tile
