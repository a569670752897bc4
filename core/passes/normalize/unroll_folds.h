// Loops inside elements written out.
#pragma once

#include <functional>

#include "core/ir/body.h"

namespace tile {

// The body without the loops that run a constant, small number of times; `fold_constants` computes
// what literals decide, such as the bounds of inner loops once an outer one is written out.
Body with_loops_written_out(const Body& body,
                            const std::function<Body(const Body&)>& fold_constants);

}  // namespace tile
