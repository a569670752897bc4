// Timing of several contenders in turns, so that a disturbance of the machine meets all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tile::bench {

// Makes `count` calls and gives the nanoseconds that they took together.
using Calls = std::function<double(int64_t count)>;
Calls timed(std::function<void()> call);

struct Contender {
  std::string name;
  Calls calls;
};

// Nanoseconds of one call, a value for each round.
struct Times {
  std::vector<double> real, cpu;
  int64_t iterations = 0;  // calls timed over all rounds

  double least() const;
  double quantile(double part) const;  // of the rounds' times, 0 <= part <= 1
  double median() const;
  double median_cpu() const;
};

// Of two contenders that took turns: the median over the rounds of the first one's time over the
// second's. A spell in which the machine is slow meets both of a round.
double in_turns(const Times& first, const Times& second);
// Where that median is sure to lie, 19 times in 20: between two rounds' ratios, or between the
// least and the largest one where there are fewer than six rounds, which show no more.
struct Between {
  double low = 0, high = 0;
};
Between surely_in_turns(const Times& first, const Times& second);

struct TimingOptions {
  int rounds = 15;
  double round_ms = 15;      // calls are repeated until a round takes this long
  double longest_ms = 4000;  // no further round once all of them together took this long
  // Other contenders' idle threads may spin for a while; each round of several waits this long.
  int pause_ms = 40;
};

// Every round times each contender in order: one call to warm its data, then its calls. At least
// three rounds. `progress` may be empty.
std::vector<Times> interleave(const std::vector<Contender>& contenders,
                              const TimingOptions& options,
                              const std::function<void(int round)>& progress = {});

}  // namespace tile::bench
