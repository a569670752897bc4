// Threads of the library's own, for work that nobody waits for.
#pragma once

#include <functional>

namespace tile {

// Calls `work` soon on another thread; as many at once as the process may use processors, the rest
// in order behind them. Threads end when there is nothing left to do. `work` must not throw. Throws
// std::bad_alloc where there is neither a thread nor the memory for one.
void run_in_background(std::function<void()> work);

// Whether the process is ending: work then ends as soon as it can, and what has not begun is
// dropped. Threads are waited for before any static object of the library goes.
bool background_is_ending();

}  // namespace tile
