// Ordered folds directly inside each other.
#pragma once

#include "core/ir/body.h"

namespace tile {

// The body with each nest of ordered folds that only pass their carried values down, and whose
// inner bounds do not depend on outer counters, as one fold over all its trips.
Body with_nests_flattened(const Body& body);

}  // namespace tile
