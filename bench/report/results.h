// Files of results: JSON in Google Benchmark's shape, written after every benchmark, read back to
// go on with a run, to compare two runs and to draw a report.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/report/report.h"

namespace tile::bench {

struct Results;

// The results of a run in progress. With a path the file is replaced as a whole after each result,
// so that a run that is cut short leaves what it had.
class ResultsFile {
 public:
  // With `resume` the results of an earlier run of the same machine and peers are kept; failed ones
  // are measured again. Throws Failure (code "file") for a file that is not such a run's.
  ResultsFile(std::string path, bool resume, const Context& context);
  bool has(const std::string& name) const;
  void add(const Result& result);
  bool failed() const { return failed_; }
  void finish() const;      // writes the file, also if there is no result
  Results results() const;  // as the file has them, also where none is written

 private:
  void write() const;
  std::string text() const;
  std::string path_;  // empty: nowhere, "-": standard output at the end
  std::string context_;
  std::vector<std::pair<std::string, std::string>> entries_;  // name, JSON
  bool failed_ = false;
};

// One benchmark of a file.
struct Row {
  std::string name, suite, measure;  // "gflops" or "gbps"
  std::string error;
  std::string untrusted;                            // why the ratios mean little
  double median = 0, least = 0, low = 0, high = 0;  // ns; quartiles of the rounds
  double operations = 0, bytes = 0;
  double rate = 0, ceiling = 0;
  double target_geomean = 0, target_worst = 0;
  double share = 0;  // of the ceiling
  // Their median in ns, their time over ours in turns, and their share of the ceiling.
  struct Peer {
    std::string name;
    double median = 0, ratio = 0, share = 0;
  };
  std::vector<Peer> peers;
  std::vector<double> tuning;  // the best after each candidate, ns
  // Of a program's own file: its kernels one by one.
  std::vector<KernelTime> launches;
  std::string beside;  // how it stands beside the other program
  double compile_ms = 0, temporary_bytes = 0;

  // The fastest peer's time over ours; 0 without peers.
  double ratio() const;
  const Peer* best_peer() const;  // null without peers
};
struct Results {
  std::string path, device, date;
  int threads = 0;
  double fma_gflops = 0, copy_gbps = 0, read_gbps = 0;  // ceilings with all threads
  std::vector<std::string> peers;
  std::vector<Row> rows;

  const Row* find(const std::string& name) const;
};
// Throws Failure (code "file").
Results read_results(const std::string& path);

// The rows of one suite, and how they stand beside the best peer.
struct Suite {
  std::string name;
  std::vector<const Row*> rows{};
  double geomean = 0;          // of the ratios; 0 without peers
  const Row* worst = nullptr;  // with a peer
  double share_geomean = 0;    // of the shares of the ceiling
  size_t untrusted = 0;        // rows
  double target_geomean = 0, target_worst = 0;
  // A case is met by its ratio or by 95 % of the ceiling.
  bool met() const;
};
std::vector<Suite> suites(const Results& results);

}  // namespace tile::bench
