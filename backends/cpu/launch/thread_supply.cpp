#include "backends/cpu/launch/thread_supply.h"

#include <pthread.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <new>
#include <vector>

namespace tile::cpu {
namespace {

// Of its workers, oneTBB starts so many from the thread that asks for them (`wake_some` of its
// private server); each of these starts others.
constexpr int kStartedByCaller = 2;

void* wait_for_end(void* ended) {
  static_cast<std::atomic<bool>*>(ended)->wait(false);
  return nullptr;
}

// How many threads, up to `wanted`, exist at once.
int supplied(int wanted) {
  std::atomic<bool> ended{false};
  std::vector<pthread_t> threads;
  threads.reserve(static_cast<size_t>(wanted));
  pthread_t thread;
  for (int i = 0; i < wanted; ++i) {
    if (pthread_create(&thread, nullptr, wait_for_end, &ended) != 0) break;
    threads.push_back(thread);
  }
  ended = true;
  ended.notify_all();
  for (pthread_t t : threads) pthread_join(t, nullptr);
  return static_cast<int>(threads.size());
}

}  // namespace

void limit_threads_to_supply() noexcept {
  static std::atomic<bool> known{false};
  if (known.load(std::memory_order_relaxed) || known.exchange(true)) return;
  try {
    int workers = tbb::this_task_arena::max_concurrency() - 1;
    if (workers <= kStartedByCaller) return;
    int there = supplied(workers);
    if (there == workers) return;
    // Lives as long as the process.
    new tbb::global_control(tbb::global_control::max_allowed_parallelism,
                            static_cast<size_t>(there) + 1);
  } catch (const std::exception&) {  // no memory: as if the process had not been asked
    known = false;
  }
}

}  // namespace tile::cpu
