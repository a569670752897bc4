// Outputs that a run may be given in the memory of inputs.
#pragma once

#include <vector>

#include "runtime/engine/executable.h"

namespace tile {

// Those of an executable whose launches, with their kernels, and places are final. On a GPU none:
// kernels are compiled there on the word that their arguments share no memory.
std::vector<Donation> donations_of(const Executable& executable);
bool may_donate(const Executable& executable, size_t input, size_t output);

}  // namespace tile
