#include "tests/faults/failing_threads.h"

#include <dlfcn.h>
#include <pthread.h>

#include <cerrno>

namespace tile::test {

constinit std::atomic<int> threads_left{1 << 30};

}  // namespace tile::test

// Replaces the C library's for every library of the process.
extern "C" [[gnu::visibility("default")]] int pthread_create(pthread_t* thread,
                                                             const pthread_attr_t* attributes,
                                                             void* (*start)(void*),
                                                             void* argument) {
  if (tile::test::threads_left.fetch_sub(1) <= 0) return EAGAIN;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, start, argument);
}
