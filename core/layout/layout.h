// The passes that change what is stored, and how, where the cost model finds it faster: one file
// and one function each, put in order by the pipeline.
#pragma once

#include "core/ir/bound.h"
#include "core/target/target.h"

namespace tile {

// Sums over a band of scores walk its columns, with the band as a condition, where
// kernels that stream columns are faster for that.
void straighten_bands(BoundProgram& program, const Target& target);
// Sums of scores times what another result sums up, too, become sums of that result; on a CPU
// where the model finds it better.
void exchange_sums(BoundProgram& program, const Target& target);
// On a GPU, elements that other statements only compare with a number are stored as the result of
// that.
void store_comparisons(BoundProgram& program, const Target& target);
// On a GPU, factors and divisors that all terms of a sum have are combined into one number of a
// cell.
void factor_sums(BoundProgram& program, const Target& target);
// On a GPU, a factor in f32 of terms that are rounded to the other factor's bf16 is rounded to it
// instead, so that tensor cores multiply both.
void round_factors(BoundProgram& program, const Target& target);
// Users of products of rows and columns (scores) that no one kernel makes get scores of
// their own, which their kernels compute again block by block, so that none are stored.
void recompute_streams(BoundProgram& program, const Target& target);
// A reduction to few cells becomes partial results over chunks and their combination, so that it
// can run in parallel and still gives the same bits on every run.
void split_reduction(BoundProgram& program, const Target& target);
// On a CPU, sums over rows of what other statements make or read row by row become partial sums of
// chunks of rows, where a kernel then has both.
void gather_row_sums(BoundProgram& program, const Target& target);
// On a GPU, stores temporaries with dimensions in the order in which those of rows, columns and
// terms of products stand together, where the model finds that faster.
void order_dimensions(BoundProgram& program, const Target& target);
// Copies a factor of a matrix product, on a GPU, to where tiles of it are fetched faster: with
// neighbours in memory that the tiles want, or with a row of terms for each output.
void arrange_factors(BoundProgram& program, const Target& target);
// Copies factors of a product of many dimensions, on a CPU, to where the dimensions of its rows,
// columns and terms stand together and are walked as one each.
void group_dimensions(BoundProgram& program, const Target& target);
// Copies a factor that several products read in one way, on a CPU, into the order in which their
// register tiles walk it.
void share_factor_copies(BoundProgram& program, const Target& target);

}  // namespace tile
