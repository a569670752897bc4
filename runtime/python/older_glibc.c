/* arc4random, which glibc has from 2.36 and which LLVM and the C++ runtime, as this system built
 * them, ask for. Hidden in the libraries of a wheel, so that they run with glibc 2.34. */
#include <stdint.h>
#include <sys/random.h>

__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
  uint32_t value;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}
