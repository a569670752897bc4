// Times schedules of one kernel of an executable, on buffers of its own.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/executable.h"

namespace tile {

double now_ns();  // of a clock that only goes forward

class KernelTimer {
 public:
  // The references must outlive the timer; the launch has a kernel. Throws Failure (memory).
  KernelTimer(const Executable& executable, const Launch& launch);
  ~KernelTimer();
  KernelTimer(const KernelTimer&) = delete;
  KernelTimer& operator=(const KernelTimer&) = delete;

  // Compiles what will be timed, on all cores.
  void prepare(std::span<const Schedule> schedules);
  // Nanoseconds of a run after one that warms caches and pages: on a CPU the least of a few, of
  // more where runs are short, and of that one alone where it is long and far behind the best
  // schedule's; on a device the median of a few, on arguments in turns; infinity for a schedule
  // whose code spills registers on a device. Each schedule is compiled once, for the timer alone.
  double operator()(const Schedule& schedule);
  // The same of the launch as it is, with the code and the parameters that the executable runs.
  double as_compiled();
  // What a schedule was compiled to; null: it was not.
  std::shared_ptr<const Code> code(const Schedule& schedule) const;
  // The least of a schedule's times so far.
  double best(const Schedule& schedule) const;
  // On what this timer's time went.
  struct Spent {
    size_t compiled = 0;
    double compiling_ns = 0, running_ns = 0;
  };
  const Spent& spent() const { return spent_; }

 private:
  struct Memory;
  struct Trial {
    std::shared_ptr<const Code> code;
    double best = std::numeric_limits<double>::infinity();
  };
  std::shared_ptr<const Code> compiled(const Schedule& schedule) const;
  double run(const Code& code, const std::vector<int64_t>& parameters);
  double settled(const Code& code, const std::vector<int64_t>& parameters);
  const Executable& executable_;
  const Launch& launch_;
  const Kernel& kernel_;
  std::unique_ptr<Memory> memory_;
  std::map<std::string, Trial> trials_;                    // by the schedule's text
  double best_ = std::numeric_limits<double>::infinity();  // of all schedules
  Spent spent_;
};

}  // namespace tile
