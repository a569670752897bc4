// The subcommands of tile-bench. Each returns the process's exit status; throws Failure or
// cli::Located.
#pragma once

#include <string>
#include <vector>

#include "bench/timing.h"
#include "runtime/cli/session.h"

namespace tile::bench {

struct Request {
  cli::Options engine;
  std::string folder;  // of the workloads
  std::vector<std::string> names;
  std::string filter;
  bool peers = false;
  bool check = true;
  bool schedules = false;  // print what tuning found
  double tune_ms = 0;      // of each benchmark; 0: the analytic schedules
  TimingOptions timing;
  std::string json;  // file; empty: none
};

int command_list(const Request& request);
int command_run(const Request& request);
int command_tune(const Request& request);

}  // namespace tile::bench
