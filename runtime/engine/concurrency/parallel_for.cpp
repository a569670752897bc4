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

#include "runtime/engine/concurrency/call_control.h"

namespace tile {

size_t processors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    return static_cast<size_t>(std::max(1, CPU_COUNT(&allowed)));
  }
  return std::max(1U, std::thread::hardware_concurrency());  // more than the set holds
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
  void help(CallControl& whole, const Limits& limits) {
    CallControl own(whole);
    Controlled now(&own, &limits);
    take();
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

void parallel_for(size_t count, const std::function<void(size_t)>& work) {
  Pieces pieces(count, work);
  size_t threads = std::min(count, processors());
  if (threads < 2) {
    pieces.take();
    return pieces.rethrow();
  }
  CallControl whole(Stage::compile, nullptr, seconds_left());
  const Limits& bounds = limits();
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
