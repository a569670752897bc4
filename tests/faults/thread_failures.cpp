// A process that gets no more threads, or none from some number on: what is made of several gives
// the same results on fewer.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "tests/faults/failing_threads.h"
#include "tests/faults/product.h"

namespace {

using namespace tile::test;

constexpr unsigned kSeconds = 60;

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
      std::printf("with %d more threads: %d were refused\n", threads,
                  std::max(0, -threads_left.load()));
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
