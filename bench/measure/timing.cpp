#include "bench/measure/timing.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>

namespace tile::bench {
namespace {

using Clock = std::chrono::steady_clock;

double real_ns() {
  return std::chrono::duration<double, std::nano>(Clock::now().time_since_epoch()).count();
}
double cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// A round's time of one over the other's, round by round.
std::vector<double> ratios_of(const Times& first, const Times& second) {
  std::vector<double> ratios;
  size_t rounds = std::min(first.real.size(), second.real.size());
  for (size_t i = 0; i < rounds; ++i) ratios.push_back(first.real[i] / second.real[i]);
  return ratios;
}

// Each of n values is below their distribution's median with a chance of a half: the sign test says
// how many at each end may be left out so that the median is outside in at most 5 of 100 cases.
size_t left_out_at_each_end(size_t n) {
  constexpr double kEachSide = 0.025;
  double chance = std::pow(0.5, static_cast<double>(n)), sum = chance;  // that none is below it
  for (size_t left_out = 0;; ++left_out) {
    chance *= static_cast<double>(n - left_out) / static_cast<double>(left_out + 1);
    sum += chance;
    if (sum > kEachSide) return left_out;
  }
}

// How many calls fill a round, by the lesser of two times, as other work may hold one of them up;
// what takes ten rounds has had its share of that.
int64_t calibrate(const Contender& contender, double round_ms) {
  contender.calls(1);
  for (int64_t count = 1;; count *= 2) {
    double took = contender.calls(count);
    if (took >= round_ms * 1e5 && took < round_ms * 1e7) {
      took = std::min(took, contender.calls(count));
    }
    if (took >= round_ms * 1e6) return count;
    if (took >= round_ms * 1e5) {
      return static_cast<int64_t>(std::ceil(static_cast<double>(count) * round_ms * 1e6 / took));
    }
  }
}

void time_round(const Contender& contender, int64_t count, Times& times) {
  contender.calls(1);
  double cpu = cpu_ns();
  double real = contender.calls(count);
  auto n = static_cast<double>(count);
  times.real.push_back(real / n);
  times.cpu.push_back((cpu_ns() - cpu) / n);
  times.iterations += count;
}

// Keeps the calling thread on the processor where it is, and the threads that libraries have
// started off it: a scheduler that wakes a library's thread beside the caller may leave it there
// for a whole round while another processor idles. Every contender's caller works along with its
// threads.
class KeptApart {
 public:
  KeptApart() : known_(sched_getaffinity(0, sizeof all_, &all_) == 0 && CPU_COUNT(&all_) > 1) {
    int here = sched_getcpu();
    if (!known_ || here < 0) return;
    cpu_set_t one, others = all_;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(here), &one);
    CPU_CLR(static_cast<size_t>(here), &others);
    place(others);
    sched_setaffinity(0, sizeof one, &one);
  }
  ~KeptApart() {
    if (known_) place(all_);
  }
  KeptApart(const KeptApart&) = delete;
  KeptApart& operator=(const KeptApart&) = delete;

 private:
  // All threads of the process; one that has just ended is no error.
  static void place(const cpu_set_t& where) {
    std::error_code error;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
      sched_setaffinity(std::stoi(task.path().filename().string()), sizeof where, &where);
    }
  }

  cpu_set_t all_{};
  bool known_;
};

}  // namespace

double Times::least() const { return *std::min_element(real.begin(), real.end()); }
double Times::quantile(double part) const {
  std::vector<double> sorted = real;
  std::sort(sorted.begin(), sorted.end());
  double at = part * static_cast<double>(sorted.size() - 1);
  auto below = static_cast<size_t>(at);
  size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}
double Times::median() const { return median_of(real); }
double Times::median_cpu() const { return median_of(cpu); }

double in_turns(const Times& first, const Times& second) {
  return median_of(ratios_of(first, second));
}
Between surely_in_turns(const Times& first, const Times& second) {
  std::vector<double> ratios = ratios_of(first, second);
  std::sort(ratios.begin(), ratios.end());
  size_t left_out = left_out_at_each_end(ratios.size());
  return {ratios[left_out], ratios[ratios.size() - 1 - left_out]};
}

Calls timed(std::function<void()> call) {
  return [call = std::move(call)](int64_t count) {
    double start = real_ns();
    for (int64_t i = 0; i < count; ++i) call();
    return real_ns() - start;
  };
}

std::vector<Times> interleave(const std::vector<Contender>& contenders,
                              const TimingOptions& options,
                              const std::function<void(int)>& progress) {
  std::vector<int64_t> calls;
  for (const Contender& c : contenders) calls.push_back(calibrate(c, options.round_ms));
  std::vector<Times> times(contenders.size());
  KeptApart apart;  // all have started their threads
  double start = real_ns();
  for (int round = 0; round < std::max(3, options.rounds); ++round) {
    if (round >= 3 && real_ns() - start > options.longest_ms * 1e6) break;
    if (progress) progress(round);
    for (size_t turn = 0; turn < contenders.size(); ++turn) {
      // Forth and back: who shares inputs with the one before finds them in the caches.
      size_t i = round % 2 == 0 ? turn : contenders.size() - 1 - turn;
      if (contenders.size() > 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(options.pause_ms));
      }
      time_round(contenders[i], calls[i], times[i]);
    }
  }
  return times;
}

}  // namespace tile::bench
