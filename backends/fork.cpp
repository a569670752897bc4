#include "backends/fork.h"

#include <pthread.h>

#include <atomic>
#include <new>

#include "core/support/diagnostic.h"

namespace tile {
namespace {

constinit std::atomic<int> calls{0};  // of all threads
[[gnu::tls_model("initial-exec")]] constinit thread_local int own_calls = 0;
constinit std::atomic<bool> helpers_noted{false};
constinit std::atomic<bool> helpers_lost{false};
constinit std::atomic<bool> locks_lost{false};

void on_fork_in_child() {
  if (calls > own_calls) locks_lost = true;
  calls = own_calls;
  if (helpers_noted) helpers_lost = true;
}

bool watched() {
  if (pthread_atfork(nullptr, nullptr, on_fork_in_child) != 0) throw std::bad_alloc();
  return true;
}

}  // namespace

LockingCall::LockingCall() {
  static const bool is_watched = watched();
  if (is_watched && locks_lost) {
    fail(Stage::run, "fork", {},
         "this process was forked while another thread of its parent was in a call of this library",
         "fork before threads use it, or execute a program in the child");
  }
  ++calls;
  ++own_calls;
}
LockingCall::~LockingCall() {
  --own_calls;
  --calls;
}

bool locks_are_lost() { return locks_lost.load(std::memory_order_relaxed); }
void note_helpers() { helpers_noted.store(true, std::memory_order_relaxed); }
bool helpers_are_lost() { return helpers_lost.load(std::memory_order_relaxed); }

}  // namespace tile
