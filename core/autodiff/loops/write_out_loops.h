// Loops inside elements before differentiation.
#pragma once

#include "core/ir/program.h"

namespace tile {

// Writes out the loops of constant, small trip counts. What it cannot write out stays.
void write_out_loops(SymbolicContraction& contraction);

}  // namespace tile
