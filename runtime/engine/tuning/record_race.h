// Races between what is on record: the samples of a record, and whether records are right.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/engine/engine.h"
#include "runtime/engine/records/ranking.h"
#include "runtime/engine/tuning/kernel_timer.h"

namespace tile {

// A record of this host: on a CPU of the least of the times, on a GPU of their median.
TuningRecord record_of(const Kernel& kernel, const std::string& schedule, std::vector<double> times,
                       bool is_device);
// What a race leaves of a kernel: the verdict first, then up to three others of those that were
// timed at least twice. A lead over the verdict that was within the noise is none.
std::vector<TuningRecord> records_of_race(const Kernel& kernel, const std::string& verdict,
                                          const std::vector<double>& times,
                                          std::map<std::string, std::vector<double>> others,
                                          bool is_device);

// An executable of one launch, of a kernel that stands in no program: for timing alone. Throws
// Failure where the kernel's text is none, or its tensors take more memory than the machine has.
std::shared_ptr<Executable> executable_of(const std::shared_ptr<Engine>& engine, Kernel kernel);

// The times of schedules of a launch's kernel, in turns.
std::vector<std::vector<double>> times_in_turns(KernelTimer& timer,
                                                std::span<const Schedule> schedules);

// What a race says of the records of one kernel.
struct KernelVerdict {
  std::string name;    // of the kernel in its program
  double pick_ns = 0;  // of what the cost model picks
  struct OfSchedule {
    RankedSchedule claimed;
    std::string unusable;  // why it was not raced; empty: it was
    double measured_ns = 0;
  };
  std::vector<OfSchedule> schedules;  // in the order given
  std::vector<TuningRecord> wrong;    // claims that the race refutes
  std::vector<TuningRecord> records;  // of this host, and refutations: what is to be stored
  std::string best;                   // the fastest schedule's text; empty: nothing was raced
  std::string failed;                 // why there was no race; empty: there was one
};
// Races these schedules of the kernel, which all records `known` are about, and the model's pick in
// turns. A kernel or schedule that cannot be used is named in the verdict; throws Failure for what
// ends every call ("cancelled", "memory").
KernelVerdict raced_again(const std::shared_ptr<Engine>& engine, const std::string& kernel,
                          std::span<const RankedSchedule> schedules,
                          std::span<const TuningRecord> known);

}  // namespace tile
