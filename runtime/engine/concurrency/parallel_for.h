// The same work for many things on all processors: compiles, mostly.
#pragma once

#include <cstddef>
#include <functional>

#include "backends/host_services.h"

namespace tile {

// How many this process may use, which can be fewer than the machine has; at least 1.
size_t processors();

// Calls work(0) … work(count - 1), several at once. Returns when all are done; the first exception
// stops what has not begun and is thrown again. `pool`: the host's threads help in place of new
// ones, and the control of the calling thread is asked only while that one works itself; may be
// null.
void parallel_for(size_t count, const std::function<void(size_t)>& work,
                  const ParallelFor* pool = nullptr);

}  // namespace tile
