// Times schedules of one kernel of an executable, on buffers of its own.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/executable.h"

namespace tile {

class KernelTimer {
 public:
  // The references must outlive the timer; the launch has a kernel. Throws Failure (memory).
  KernelTimer(const Executable& executable, const Launch& launch);
  ~KernelTimer();
  KernelTimer(const KernelTimer&) = delete;
  KernelTimer& operator=(const KernelTimer&) = delete;

  // Compiles what will be timed, on all cores where the backend compiles on several.
  void prepare(const std::vector<Schedule>& schedules);
  // Nanoseconds of one run after one that warms caches and pages; infinity for a schedule whose
  // code spills registers on a device. Each schedule is compiled once, for the timer alone.
  double operator()(const Schedule& schedule);
  // The least of a schedule's times so far.
  double best(const Schedule& schedule) const;

 private:
  struct Memory;
  struct Trial {
    std::shared_ptr<const Code> code;
    double best = std::numeric_limits<double>::infinity();
  };
  std::shared_ptr<const Code> compiled(const Schedule& schedule) const;
  double run(const Code& code);
  const Executable& executable_;
  const Kernel& kernel_;
  std::unique_ptr<Memory> memory_;
  std::map<std::string, Trial> trials_;  // by the schedule's text
};

}  // namespace tile
