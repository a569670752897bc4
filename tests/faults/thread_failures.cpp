// A process that gets no more threads, or none from some number on: what is made of several gives
// the same results on fewer.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "tests/faults/product.h"

namespace {

using namespace tile::test;

constexpr unsigned kSeconds = 60;
constinit std::atomic<int> threads_left{1 << 30};

}  // namespace

// Replaces the C library's for every library of the process.
extern "C" [[gnu::visibility("default")]] int pthread_create(pthread_t* thread,
                                                             const pthread_attr_t* attributes,
                                                             void* (*start)(void*),
                                                             void* argument) {
  if (threads_left.fetch_sub(1) <= 0) return EAGAIN;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto real = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return real(thread, attributes, start, argument);
}

namespace {

Outcome everything() {
  Product product;
  if (Outcome o = product.make(); o != kRight) return o;
  for (int factor : {2, 3, 5}) {
    if (Outcome o = product.parse(factor); o != kRight) return o;
    for (int run = 0; run < 3; ++run) {
      if (Outcome o = product.run(); o != kRight) return o;
    }
  }
  return kRight;
}

}  // namespace

int main() {
  int bad = 0;
  for (int threads = 0; threads < 6; ++threads) {
    pid_t child = fork();
    if (child == 0) {
      alarm(kSeconds);
      threads_left = threads;
      Outcome outcome = everything();
      std::printf("with %d more threads: %d were refused\n", threads, std::max(0, -threads_left));
      std::fflush(stdout);
      _exit(outcome);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == kRight) continue;
    ++bad;
    std::fprintf(stderr, "with %d more threads: %s\n", threads,
                 WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "a wrong result or an error");
  }
  return bad;
}
