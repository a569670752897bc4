// Loops inside elements before differentiation.
#pragma once

#include "core/ir/program.h"

namespace tile {

// Writes out the loops of constant, small trip counts, and turns the index values that depend on
// nothing but indices and sizes into index expressions, which have derivatives. What it cannot
// write out stays.
void write_out_loops(SymbolicContraction& contraction);

}  // namespace tile
