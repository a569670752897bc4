// Which schedule the records of one kernel speak for.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/engine/records/tuning_record.h"

namespace tile {

// One schedule by all records of it. A host counts once, with its latest record.
struct RankedSchedule {
  TuningRecord record;  // this host's, else the latest; `ns` and `host` are that record's
  double ns = 0;        // the median across hosts, with the speeds of hosts taken out
  size_t hosts = 0;
  int64_t samples = 0;     // of all hosts
  bool confirmed = false;  // several hosts timed it, or this one
};

// The best first. Hosts differ in speed, by as much as the schedules that they have in common show:
// the table of the logarithms of times, schedules by hosts, is taken apart by median polish (Tukey,
// Exploratory Data Analysis, chapter 10). One lucky timing does not rule: where three hosts or more
// have timed the kernel, a schedule that one of the others alone has timed stands behind those that
// are confirmed. Of equal times the latest record is first. Refuted records do not count.
std::vector<RankedSchedule> ranked(std::span<const TuningRecord> of_one_kernel,
                                   const std::string& own_host);

// Of each schedule and host the latest record alone, in the order of their times; refuted ones too.
std::vector<TuningRecord> latest(std::span<const TuningRecord> of_one_kernel);

// Those that a race on this machine should decide between: the fastest, what is within the noise of
// it, and below it what too few hosts have timed, up to `most`, the best first.
std::vector<RankedSchedule> near_ties(const std::vector<RankedSchedule>& ranking, size_t most);

// The same for a further race: empty once all of them have been raced. Where a race refutes who
// led, others lead. `raced`: texts of schedules.
std::vector<RankedSchedule> further_ties(const std::vector<RankedSchedule>& ranking, size_t most,
                                         const std::set<std::string>& raced);

// A claim and what a race on this machine found for the same schedule, in nanoseconds.
struct Claim {
  double ns = 0;
  double measured_ns = 0;
  double spread = 0;  // of either, the larger one
};
// Which claims are wrong: their ratio to what was measured is not that of the others, by more than
// the spreads of all of them say and by more than 15 %. Machines of one kind differ in speed; with
// fewer than three claims nothing tells by how much, and 30 % are allowed.
std::vector<bool> wrong_claims(std::span<const Claim> claims);

}  // namespace tile
