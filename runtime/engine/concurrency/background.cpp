#include "runtime/engine/concurrency/background.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "backends/process_end.h"
#include "runtime/engine/concurrency/parallel_for.h"

namespace tile {
namespace {

thread_local bool is_worker = false;

// Of one process: a forked child has none of its parent's threads and makes one of its own.
struct Background {
  const pid_t process = getpid();
  std::mutex mutex;
  std::condition_variable ended;
  std::deque<std::function<void()>> queue;
  size_t workers = 0;
  bool closed = false;  // the process ends
};

std::atomic<Background*> known{nullptr};
std::atomic<bool> ending{false};

Background* of_this_process() {
  Background* all = known.load(std::memory_order_acquire);
  return all != nullptr && all->process == getpid() ? all : nullptr;
}

// A worker from which the process is ended does not wait for itself.
void end_background() {
  Background* all = of_this_process();
  if (all == nullptr) return;
  ending = true;
  {
    // It goes before the workers are waited for: one of them may wait for work that is dropped.
    std::deque<std::function<void()>> dropped;
    std::lock_guard lock(all->mutex);
    all->closed = true;
    dropped.swap(all->queue);
  }
  std::unique_lock lock(all->mutex);
  all->ended.wait(lock, [&] { return all->workers == (is_worker ? 1 : 0); });
}

// Never destroyed.
Background& background() {
  if (Background* all = of_this_process()) return *all;
  static std::mutex* making = new std::mutex;
  std::lock_guard lock(*making);
  if (Background* all = of_this_process()) return *all;
  at_process_end(end_background);
  auto* made = new Background;
  known.store(made, std::memory_order_release);
  return *made;
}

void work_through(Background& all) {
  is_worker = true;
  std::unique_lock lock(all.mutex);
  while (!all.queue.empty()) {
    std::function<void()> work = std::move(all.queue.front());
    all.queue.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
  // Nothing of the library is used from here on but what threads themselves own.
  --all.workers;
  all.ended.notify_all();
}

}  // namespace

bool background_is_ending() { return ending.load(std::memory_order_relaxed); }

void run_in_background(std::function<void()> work) {
  Background& all = background();
  std::lock_guard lock(all.mutex);
  if (all.closed) throw std::bad_alloc();
  all.queue.push_back(std::move(work));
  if (all.workers >= processors()) return;
  try {
    std::thread(work_through, std::ref(all)).detach();
    ++all.workers;
  } catch (const std::system_error&) {
    if (all.workers > 0) return;  // those that are there do it
    all.queue.pop_back();
    throw std::bad_alloc();
  }
}

}  // namespace tile
