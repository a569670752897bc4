// When the work of a call ends early: because its caller wants that, or because it takes too long.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>

#include "core/support/control.h"

namespace tile {

// Seconds of the processor that the calling thread has used.
double thread_seconds();

// The control of one call, or of a stage of one, which then ends when the call does. The caller's
// callback is asked on the thread that made the control alone, every few milliseconds.
class CallControl final : public Control {
 public:
  static constexpr double kForever = std::numeric_limits<double>::infinity();
  // `cancelled` may be empty. `seconds`: what the work may take of its thread's processor time.
  CallControl(Stage stage, std::function<bool()> cancelled, double seconds = kForever);
  // On a thread that helps with the work of `whole`: it ends when that does, and adds its own time.
  explicit CallControl(CallControl& whole);

  // What is left of them.
  double seconds_left() const { return seconds_ - taken(); }
  bool is_over() noexcept override;
  // On the thread that made the control.
  void spend(double seconds) noexcept override;
  Failure reason(Span where) const override;

 private:
  enum class Why : uint8_t { none, cancelled, time };
  void look() noexcept;
  double taken() const { return thread_seconds() - start_ + spent_; }

  const Stage stage_;
  const std::function<bool()> cancelled_;
  Control* const outer_;
  CallControl* const whole_ = nullptr;
  const double seconds_;
  const std::thread::id thread_ = std::this_thread::get_id();
  const double start_;
  double spent_ = 0;                            // by other threads; of thread_ alone
  std::chrono::steady_clock::time_point next_;  // look; of thread_ alone
  std::atomic<Why> why_{Why::none};
};

// What this thread's control leaves the work of processor time.
double seconds_left();

// A lock that another thread may keep for long: the control of this thread is asked meanwhile.
std::unique_lock<std::timed_mutex> patient_lock(std::timed_mutex& mutex);

}  // namespace tile
