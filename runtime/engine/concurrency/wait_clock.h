// The clock of waits with an end.
#pragma once

#include <chrono>

namespace tile {

// ThreadSanitizer does not see that a lock is taken by a wait on the steady clock
// (pthread_mutex_clocklock, with GCC 12), only by one on the time of day.
#ifdef __SANITIZE_THREAD__
using WaitClock = std::chrono::system_clock;
#else
using WaitClock = std::chrono::steady_clock;
#endif

}  // namespace tile
