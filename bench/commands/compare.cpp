// tile-bench compare: what changed between two runs by more than they vary themselves.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "bench/commands/commands.h"
#include "bench/report/progress.h"
#include "bench/report/results.h"

namespace tile::bench {
namespace {

// The spread of a run's rounds as a part of its median: half of the rounds are inside.
double noise(const Row& row) { return row.median > 0 ? (row.high - row.low) / row.median : 0; }

struct Change {
  double ratio = 1;  // of the times: above 1, it became slower
  double threshold = 0;
  bool slower() const { return ratio > 1 + threshold; }
  bool faster() const { return ratio < 1 / (1 + threshold); }
};

Change change(const Row& before, const Row& after, double threshold) {
  return {after.median / before.median, std::max({threshold, noise(before), noise(after)})};
}

void print(const Row& before, const Row& after, const Change& c) {
  const char* verdict = c.slower() ? "slower" : c.faster() ? "faster" : "same";
  std::printf("%-32s %10s -> %10s  %.3f  (threshold %.1f %%)  %s\n", after.name.c_str(),
              time_text(before.median).c_str(), time_text(after.median).c_str(), c.ratio,
              100 * c.threshold, verdict);
}

}  // namespace

int command_compare(const std::string& before_path, const std::string& after_path,
                    double threshold) {
  Results before = read_results(before_path), after = read_results(after_path);
  if (before.device != after.device || before.threads != after.threads) {
    std::printf("the runs are of different machines or thread counts: %s, %d; %s, %d\n",
                before.device.c_str(), before.threads, after.device.c_str(), after.threads);
  }
  int compared = 0, slower = 0;
  double logs = 0;
  for (const Row& row : after.rows) {
    const Row* old = before.find(row.name);
    if (old == nullptr || !old->error.empty() || !row.error.empty()) {
      std::printf("%-32s only one run has its time\n", row.name.c_str());
      continue;
    }
    Change c = change(*old, row, threshold);
    print(*old, row, c);
    logs += std::log(c.ratio);
    slower += c.slower() ? 1 : 0;
    ++compared;
  }
  if (compared == 0) fail(Stage::run, "file", {}, "the files share no benchmark");
  std::printf("%d benchmarks, geometric mean of the times %.3f, %d slower\n", compared,
              std::exp(logs / compared), slower);
  return slower > 0 ? 1 : 0;
}

}  // namespace tile::bench
