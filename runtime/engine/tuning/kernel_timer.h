// Times schedules of one kernel of an executable, on buffers of its own.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/schedule/search/parametric_tiling.h"
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

  // From now on those of the schedules that differ in blocks, orders and threads alone are timed
  // with one code, which is given their blocks (core/schedule/search/parametric_tiling.h).
  void share(std::span<const Schedule> schedules);
  // Each of these is timed with code of its own again; what the shared one told is forgotten.
  void part(std::span<const Schedule> schedules);
  // The same for all that were told to share().
  void part();
  // Whether there is nothing left to compile for it.
  bool is_prepacked(const Schedule& schedule);
  // Compiles what will be timed, on all cores: of the first schedules so many codes.
  void prepare(std::span<const Schedule> schedules, size_t most = SIZE_MAX);
  // Nanoseconds of a run after one that warms caches and pages: on a CPU the least of a few, of
  // more where runs are short, and of that one alone where it is long and far behind the best
  // schedule's; on a device the median of a few, on arguments in turns; infinity for a schedule
  // whose code spills registers on a device. Each schedule is compiled once, for the timer alone.
  double operator()(const Schedule& schedule);
  // The same of the launch as it is, with the code and the parameters that the executable runs.
  double as_compiled();
  // What a schedule was compiled to; null: it has no code of its own.
  std::shared_ptr<const Code> code(const Schedule& schedule) const;
  // The least of a schedule's times so far.
  double best(const Schedule& schedule) const;
  // All of a schedule's times, and of the launch as it is; and of every schedule that was timed
  // with code of its own, by their texts.
  std::vector<double> times(const Schedule& schedule) const;
  const std::vector<double>& times_as_compiled() const { return as_compiled_; }
  std::map<std::string, std::vector<double>> times() const;
  // On what this timer's time went.
  struct Spent {
    size_t compiled = 0;
    double compiling_ns = 0, running_ns = 0;
  };
  const Spent& spent() const { return spent_; }

 private:
  struct Memory;
  // Schedules that share a code have it in common.
  struct Trial {
    std::shared_ptr<const Code> code;
    std::optional<size_t> shared;     // of `shared_`
    std::vector<int64_t> parameters;  // of its launches
    std::vector<size_t> copies;       // bytes of what it reads packed before all runs
    double best = std::numeric_limits<double>::infinity();
    std::vector<double> times;
  };
  struct SharedCode {
    SharedForm form;
    std::shared_ptr<const Code> code;
  };
  std::shared_ptr<const Code>& code_of(Trial& trial) {
    return trial.shared ? shared_[*trial.shared].code : trial.code;
  }
  void compile(Trial& trial, const Schedule& schedule) const;
  std::shared_ptr<const Code> compiled(const SharedForm& form) const;
  // What a code is launched with beside the kernel's arguments.
  struct Given {
    const std::vector<int64_t>& parameters;
    const std::vector<size_t>& copies;
  };
  double run(const Code& code, const Given& given);
  double settled(const Code& code, const Given& given);
  const Executable& executable_;
  const Launch& launch_;
  const Kernel& kernel_;
  std::unique_ptr<Memory> memory_;
  std::map<std::string, Trial> trials_;  // by the schedule's text
  std::vector<SharedCode> shared_;
  std::vector<double> as_compiled_;                        // times of the launch as it is
  double best_ = std::numeric_limits<double>::infinity();  // of all schedules
  Spent spent_;
};

}  // namespace tile
