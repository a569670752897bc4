// Stores without what they do not use.
#pragma once

#include "core/nest/nest.h"

namespace tile::nest {

// Drops the body's nodes that no result needs, and then the loads that no node reads.
void drop_unused(Store& store);

}  // namespace tile::nest
