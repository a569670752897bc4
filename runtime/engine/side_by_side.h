// The same work for many things on all cores: compiles, mostly.
#pragma once

#include <cstddef>
#include <functional>

namespace tile {

// Calls work(0) … work(count - 1), several at once. Returns when all are done; the first exception
// stops what has not begun and is thrown again.
void side_by_side(size_t count, const std::function<void(size_t)>& work);

}  // namespace tile
