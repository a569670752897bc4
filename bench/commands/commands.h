// The subcommands of tile-bench. Each returns the process's exit status; throws Failure or
// cli::Located.
#pragma once

#include <string>
#include <vector>

#include "bench/measure/timing.h"
#include "runtime/cli/session.h"
#include "runtime/cli/table/command_info.h"

namespace tile::bench {

struct Request {
  cli::Options engine;
  std::string folder;  // of the workloads
  std::vector<std::string> names;
  std::string filter;
  bool quick = false;  // without cases that are large
  bool small = false;  // the sizes that tests compare at, instead
  bool peers = false;
  std::vector<std::string> peer_names;  // of the peers; empty: all
  bool check = true;
  size_t kernels = 0;      // print so many of each benchmark's kernels, slowest first
  bool schedules = false;  // print what tuning found
  double tune_ms = 0;      // of each benchmark; 0: the analytic schedules
  TimingOptions timing;
  std::string json;  // file; empty: none
  std::string html;  // the same as a page; needs json
  bool resume = false;
};

// Throws Failure for a request that cannot be met: no rounds, files in no folder, peers that nobody
// knows. Every command that measures begins with it.
void check_request(const Request& request);

int command_list(const Request& request);
int command_run(const Request& request);
int command_tune(const Request& request);
// Results of f32, ours and the peers', and the peers' of f64, beside ours of f64: exits 1 if one is
// farther from them than measure/accuracy.h lets pass.
int command_accuracy(const Request& request);
// Two files of results, case by case: exits 1 if one is slower by more than `threshold` (0.05: 5 %)
// and by more than the noise of both runs.
int command_compare(const std::string& before, const std::string& after, double threshold);
// The model's pick and the race's against every aligned candidate, on random shapes of several
// classes.
struct StudyOptions {
  size_t shapes = 60;
  uint32_t seed = 1;
  double seconds = 10;  // of measuring schedules, each kernel
  double race_ms = 200;
  double scale = 1;         // of every size: those of 1 suit two cores of a CPU
  int64_t multiple = 1;     // that every size is
  DType type = DType::f32;  // of all inputs
  bool trace = false;       // every measured schedule goes into the file, with the model's estimate
  std::string again;        // a file with such a trace, whose schedules are priced again
  double least = 0;         // of the picks' mean share of the best, for exit status 0
};
int command_study(const Request& request, const StudyOptions& options);
// What today's model would pick of the schedules that an earlier study measured; no device is used.
int command_study_again(const Request& request, const StudyOptions& options);
// Exits 1 if a product takes more than 1.25 times as long with one more row, column or depth, for
// sizes from `from` to `to`.
int command_cliffs(const Request& request, int64_t from, int64_t to);
// Networks at every size of a range: exits 1 if a kernel takes more than `most_codes` codes.
struct SizesOptions {
  int64_t from = 1, to = 64;
  uint32_t seed = 1;     // of the order in which sizes come
  bool times = true;     // also shared code beside a size's own
  bool kernels = false;  // and each kernel of both, at the size where they are farthest apart
  size_t most_codes = 4;
  TimingOptions timing{5, 2, 400, 0};
};
int command_sizes(const Request& request, const SizesOptions& options);
int command_report(const std::string& json, const std::string& html);

// The examples of a command's manual page; of the whole program's with an empty name.
std::vector<cli::ExampleInfo> examples_of(const std::string& command);

}  // namespace tile::bench
