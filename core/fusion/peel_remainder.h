// Products whose rows end a few cells after a whole number of vectors.
#pragma once

#include "core/kernel/kernel.h"
#include "core/target/target.h"

namespace tile {

// A vector for one cell takes as long as for all of its lanes. Where the model finds it faster, the
// last cells of the rows become a piece of their own, whose vectors may run along the reduction.
// For CPUs.
void peel_remainder(Kernel& kernel, const Target& target);

}  // namespace tile
