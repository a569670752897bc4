// Where the time of a compilation goes: the passes that it ran, with their times.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/pass.h"

namespace tile {

// Thread safe: kernels become code on several threads, so that the times of the code's passes may
// add up to more than the whole took.
class PassTimes {
 public:
  struct Row {
    PassInfo pass;
    uint64_t runs = 0;
    double ns = 0;  // of all runs
  };

  void add(const PassInfo& pass, double ns);
  // What another one, of work done before, holds: its passes and its whole time.
  void add(const PassTimes& before);
  // Nanoseconds of the whole, passes and what lies between them.
  void add_total(double ns);

  // Of passes that were run, in the order of all_passes().
  std::vector<Row> rows() const;
  double total_ns() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string_view, Row> rows_;  // by the pass's name
  double total_ns_ = 0;
};

// Puts the times of one thread's passes there. Passes do not contain each other.
class PassClock final : public PassObserver {
 public:
  explicit PassClock(PassTimes& times) : times_(times) {}
  void begins(const PassInfo&) override { start_ = std::chrono::steady_clock::now(); }
  void ends(const PassInfo& pass, const PassText&) override {
    times_.add(pass,
               std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start_)
                   .count());
  }

 private:
  PassTimes& times_;
  std::chrono::steady_clock::time_point start_;
};

// The nanoseconds that work() takes.
template <class Work>
double timed_ns(const Work& work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

// A line for each pass, and the whole.
std::string to_text(const PassTimes& times);
// As tile_executable_pass_times says.
std::string to_json(const PassTimes& times);

}  // namespace tile
