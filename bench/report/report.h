// Results: a table for people, and JSON in Google Benchmark's shape for programs.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "bench/measure/ceilings.h"
#include "bench/measure/timing.h"
#include "bench/measure/work.h"
#include "bench/measure/workload.h"
#include "bench/report/kernel_table.h"

namespace tile::bench {

struct PeerResult {
  std::string name;
  Times times;
  std::optional<double> allocated_bytes = {};  // by a call at most, results included
};

struct Result {
  std::string name;
  std::string suite;
  double target_geomean = 0, target_worst = 0;  // of the suite; 0: none
  std::vector<double> tuning;  // the best time after each candidate, ns; empty: not tuned
  Measure measure = Measure::gflops;
  Work work;
  double ceiling = 0;  // in units of the measure
  // Of what took turns with the contenders as the ceiling, if anything did: its times, and the
  // operations or bytes of one call.
  Times ceiling_times;
  double ceiling_work = 0;
  Times times;
  double compile_ms = 0;
  std::vector<std::string> schedules;  // of our kernels
  size_t distinct_kernels = 0;         // that have code of their own
  std::vector<KernelTime> launches;    // one by one; empty: they were not timed
  std::string beside;  // how it stands beside the program that it was timed with; empty: alone
  // Of ours in a call: temporaries, and what it writes.
  double temporary_bytes = 0, output_bytes = 0;
  std::string checked_with;  // what the values were compared with; empty: nothing
  // Where those differ by more than roundings do: how far each contender is from f64's results.
  std::string checked_in_f64;
  std::vector<PeerResult> peers;
  struct FailedPeer {
    std::string name, reason;
  };
  std::vector<FailedPeer> failed_peers;  // that have the case and could not be timed
  std::string untrusted;  // why times or the ceiling mean little; empty: nothing known
  std::string error;      // not empty: the case failed, the rest means nothing

  double work_done() const { return measure == Measure::gflops ? work.operations : work.bytes; }
  // 10^9 operations or bytes in a second, from the median.
  double rate() const { return work_done() / times.median(); }
  double share_of_ceiling() const { return share_of_ceiling(times); }
  double share_of_ceiling(const Times& of) const;  // in turns, where the ceiling took turns
  // The fastest peer's time over ours: above 1, we are faster; 0 without peers. In turns, or of
  // both the least.
  double ratio_best_peer() const;
  double ratio_best_peer_least() const;
};

// "97.3 %", and "> 100 %" of more than all: something held the ceiling up, or hands the data out
// faster than what was measured, and how much is nobody's figure.
std::string share_text(double share, int digits = 1);

struct Context {
  std::string device;
  int threads = 1;
  Ceilings* ceilings = nullptr;
  std::vector<std::string> peers;  // descriptions, and why others are missing
  // Of a GPU instead of this host's ceilings: f32 by its data sheet, and a copy in its memory.
  double device_gflops = 0, device_gbps = 0;
};

void print_header(std::ostream& out, const Context& context);
void print_row(std::ostream& out, const Result& result);
// The names of the columns of print_row.
void print_columns(std::ostream& out);
// The parts of a file of results (results.h).
std::string context_json(const Context& context);
std::string entry_json(const Result& result);

}  // namespace tile::bench
