// Bodies after their integer expressions are simplified: selects whose condition has become a
// constant are replaced by the side taken, and what only the other side needed is dropped.
#pragma once

#include "core/nest/nest.h"

namespace tile::nest {

void fold_selects(Store& store);
void fold_selects(If& guard);

}  // namespace tile::nest
