#include "runtime/engine/concurrency/parallel_for.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "backends/cpu/launch/worker_team.h"
#include "backends/cpu/probe/cpu_quota.h"
#include "runtime/engine/concurrency/call_control.h"

namespace tile {

size_t processors() {
  static const int kQuota = cpu::processor_quota();
  size_t most = kQuota > 0 ? static_cast<size_t>(kQuota) : SIZE_MAX;
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    return std::min(most, static_cast<size_t>(std::max(1, CPU_COUNT(&allowed))));
  }
  // More than the set holds.
  return std::min<size_t>(most, std::max(1U, std::thread::hardware_concurrency()));
}

namespace {

// Work that threads take piece by piece.
class Pieces {
 public:
  Pieces(size_t count, const std::function<void(size_t)>& work) : count_(count), work_(work) {}

  void take() {
    for (size_t i; (i = next_++) < count_;) {
      try {
        checkpoint_at({});
        work_(i);
      } catch (...) {
        std::lock_guard lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
        next_ = count_;
      }
    }
  }
  void take_with_control(CallControl& whole, const Limits& limits) {
    CallControl own(whole);
    Controlled now(&own, &limits);
    take();
  }
  void help(CallControl& whole, const Limits& limits) {
    take_with_control(whole, limits);
    std::lock_guard lock(mutex_);
    --helpers_;
    done_.notify_all();
  }
  void expect_helper() {
    std::lock_guard lock(mutex_);
    ++helpers_;
  }
  // The control is asked meanwhile, so that helpers learn that their work is over.
  void wait_for_helpers(CallControl& whole) {
    std::unique_lock lock(mutex_);
    while (!done_.wait_for(lock, kWait, [&] { return helpers_ == 0; })) whole.is_over();
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  static constexpr std::chrono::milliseconds kWait{5};
  const size_t count_;
  const std::function<void(size_t)>& work_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  std::condition_variable done_;
  int helpers_ = 0;  // that are at it; one may be done before it is expected
  std::exception_ptr failure_;
};

}  // namespace

void parallel_for(size_t count, const std::function<void(size_t)>& work, const ParallelFor* pool) {
  Pieces pieces(count, work);
  size_t threads = std::min(count, processors());
  if (threads < 2) {
    pieces.take();
    return pieces.rethrow();
  }
  CallControl whole(Stage::compile, nullptr, seconds_left());
  const Limits& bounds = limits();
  if (pool != nullptr) {
    cpu::WorkerTeam::mine().run(
        static_cast<int64_t>(threads),
        [&pieces, &whole, &bounds](int64_t) { pieces.take_with_control(whole, bounds); }, nullptr,
        pool);
    return pieces.rethrow();
  }
  {
    std::vector<std::jthread> others;
    try {
      others.reserve(threads);
      for (size_t t = 1; t < threads; ++t) {
        others.emplace_back([&] { pieces.help(whole, bounds); });
        pieces.expect_helper();
      }
    } catch (const std::exception&) {  // no more threads, or no memory for them: fewer do it
    }
    pieces.take();
    pieces.wait_for_helpers(whole);
  }
  pieces.rethrow();
}

}  // namespace tile
