// A process that has used the library forks. The child's calls give their results, or an error of
// code "fork" where another thread of the parent was in a call that takes locks; none waits for
// ever.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/faults/product.h"

namespace {

using namespace tile::test;

constexpr unsigned kSeconds = 60;
constexpr int kForks = 60;

template <class Work>
Outcome in_child(const Work& work) {
  pid_t child = fork();
  if (child == 0) {
    alarm(kSeconds);
    _exit(work());
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    std::fprintf(stderr, "a child: %s\n",
                 WTERMSIG(status) == SIGALRM ? "a hang" : strsignal(WTERMSIG(status)));
    return kWrong;
  }
  return static_cast<Outcome>(WEXITSTATUS(status));
}

// What was run before, another program, another engine, and freeing all of it.
Outcome everything(Product& used) {
  if (Outcome o = used.run(); o != kRight) return o;
  if (Outcome o = used.parse(7); o != kRight) return o;
  if (Outcome o = used.run(); o != kRight) return o;
  Product other;
  if (Outcome o = other.make(); o != kRight) return o;
  if (Outcome o = other.parse(5); o != kRight) return o;
  Outcome last = other.run();
  if (last == kRight) std::thread([&] { last = other.run(); }).join();
  return last;
}

bool idle_engines() {
  Product used;
  if (used.make() != kRight || used.parse(3) != kRight || used.run() != kRight) return false;
  for (int i = 0; i < 5; ++i) {
    if (in_child([&] { return everything(used); }) != kRight) return false;
    if (used.run() != kRight) return false;
  }
  return true;
}

// Children of a process in which another thread compiles all the time.
bool busy_engines() {
  Product used;
  if (used.make() != kRight || used.parse(3) != kRight || used.run() != kRight) return false;
  std::atomic<bool> stop{false}, bad{false};
  std::thread compiling([&] {
    Product other;
    bad = other.make() != kRight;
    for (int i = 1; !stop && !bad; ++i)
      bad = other.parse(100 + i) != kRight || other.run() != kRight;
  });
  int counts[4] = {};
  for (int i = 0; i < kForks; ++i) {
    ++counts[in_child([&] { return everything(used); })];
    std::this_thread::sleep_for(std::chrono::milliseconds(i % 7));
  }
  stop = true;
  compiling.join();
  std::printf("of %d children beside a compiling thread %d worked, %d were refused, %d failed\n",
              kForks, counts[kRight], counts[kForkError], counts[kWrong] + counts[kOtherError]);
  return !bad && counts[kWrong] + counts[kOtherError] == 0;
}

}  // namespace

int main() {
  if (!idle_engines()) {
    std::fprintf(stderr, "a child of an idle process failed\n");
    return 1;
  }
  return busy_engines() ? 0 : 1;
}
