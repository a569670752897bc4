// Time that does not depend on what else a machine is doing.
#pragma once

#include <ctime>

namespace tile::test {

// What the process has used of its processors, in seconds.
inline double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace tile::test
