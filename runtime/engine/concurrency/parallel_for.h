// The same work for many things on all processors: compiles, mostly.
#pragma once

#include <cstddef>
#include <functional>

namespace tile {

// How many this process may use, which can be fewer than the machine has; at least 1.
size_t processors();

// Calls work(0) … work(count - 1), several at once. Returns when all are done; the first exception
// stops what has not begun and is thrown again.
void parallel_for(size_t count, const std::function<void(size_t)>& work);

}  // namespace tile
