// The passes that bring a program into normal form: one file and one function each, put in order by
// the pipeline.
#pragma once

#include "core/ir/bound.h"
#include "core/target/target.h"

namespace tile {

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
// Turns the in-range rule of accesses into explicit constraints of each piece.
void gather_constraints(BoundProgram& program, const Target& target);
// Changes iterators so that every index is an integer and the first `parallel_dims` iterators of a
// piece determine the output cell alone. A piece without points is dropped.
void reduce(BoundProgram& program, const Target& target);
// Peels small digits into pieces with exact boxes and residual constraints: the normal form.
void defract(BoundProgram& program, const Target& target);
// Stores the components of temporaries that are tuples as arrays of their own.
void split_tuples(BoundProgram& program, const Target& target);

}  // namespace tile
