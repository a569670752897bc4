// Loops that may run as a doacross loop: threads take iterations up in order, and parts of them
// wait for the iteration before.
#pragma once

#include <cstddef>

#include "core/nest/nest.h"

namespace tile::cpu {

// Whether the statements of the nest from `first` on are three loops over the same turns, the
// second a serial one whose iterations each need those before it, such that iteration i of the
// second needs of the first only iteration i, and iteration i of the third needs of the second only
// those before i. The third may have one iteration more. Threads may then take the turns up in
// order: each runs its iteration of the first loop, of the second when the turn before has, and of
// the third.
bool begins_doacross(const nest::Nest& nest, size_t first);

}  // namespace tile::cpu
