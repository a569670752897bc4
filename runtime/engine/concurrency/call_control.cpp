#include "runtime/engine/concurrency/call_control.h"

#include <ctime>
#include <utility>

#include "runtime/engine/concurrency/wait_clock.h"

namespace tile {
namespace {

constexpr std::chrono::milliseconds kBetweenLooks{2};
constexpr std::chrono::milliseconds kWait{5};

const char* work_of(Stage stage) {
  switch (stage) {
    case Stage::parse:
      return "reading the program";
    case Stage::run:
      return "the run";
    default:
      return "compiling";
  }
}

}  // namespace

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

CallControl::CallControl(Stage stage, std::function<bool()> cancelled, double seconds)
    : stage_(stage),
      cancelled_(std::move(cancelled)),
      outer_(current_control()),
      seconds_(seconds),
      start_(seconds < kForever ? thread_seconds() : 0) {}

CallControl::CallControl(CallControl& whole)
    : stage_(whole.stage_),
      outer_(&whole),
      whole_(&whole),
      seconds_(whole.seconds_),
      start_(seconds_ < kForever ? thread_seconds() : 0) {}

bool CallControl::is_over() noexcept {
  if (why_.load(std::memory_order_relaxed) != Why::none) return true;
  if (std::this_thread::get_id() == thread_) look();
  return why_.load(std::memory_order_relaxed) != Why::none;
}

void CallControl::spend(double seconds) noexcept {
  spent_ += seconds;
  // The whole of a part is another thread's, which has time of its own.
  if (outer_ != nullptr && whole_ == nullptr) outer_->spend(seconds);
}

void CallControl::look() noexcept {
  auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kBetweenLooks;
  bool asked = outer_ != nullptr && outer_->is_over();
  try {
    asked = asked || (cancelled_ && cancelled_());
  } catch (...) {
    asked = true;  // a callback that throws wants no more
  }
  Why why = asked ? Why::cancelled : Why::none;
  if (!asked && seconds_ < kForever && taken() > seconds_) why = Why::time;
  if (why == Why::none) return;
  why_ = why;
  // The whole ends with its part, for the same reason.
  if (whole_ != nullptr && why == Why::time) whole_->why_ = why;
}

Failure CallControl::reason(Span where) const {
  const CallControl& first = whole_ != nullptr && whole_->why_ != Why::none ? *whole_ : *this;
  std::string work = work_of(stage_);
  if (first.why_ == Why::time) {
    return Failure({stage_, "limit", work + " takes too long",
                    "an engine whose option limit_compile_ms is larger allows more", where});
  }
  return Failure({stage_, "cancelled", work + " was cancelled", "", where});
}

double seconds_left() {
  const auto* control = dynamic_cast<const CallControl*>(current_control());
  return control == nullptr ? CallControl::kForever : control->seconds_left();
}

std::unique_lock<std::timed_mutex> patient_lock(std::timed_mutex& mutex) {
  std::unique_lock lock(mutex, std::defer_lock);
  while (!lock.try_lock_until(WaitClock::now() + kWait)) checkpoint_at({});
  return lock;
}

}  // namespace tile
