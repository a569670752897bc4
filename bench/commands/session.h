// What run and tune share: one engine, the peers and the ceilings of a whole invocation.
#pragma once

#include <map>

#include "bench/commands/commands.h"
#include "bench/measure/prepared.h"
#include "bench/peers/peer.h"
#include "bench/report/progress.h"
#include "bench/report/report.h"

namespace tile::bench {

class Session {
 public:
  explicit Session(const Request& request);

  const std::vector<Case>& cases() const { return cases_; }
  Context context();
  Prepared prepare(const Case& c);
  // Checks values, then times the case and the peers that have it, in turns. A failure becomes
  // Result::error. `measured`: what the case has taken already, in the same rounds as another one;
  // only what bounds it is then timed.
  Result time(Prepared& prepared, const std::string& name, const Times* measured = nullptr);
  // The best time after each candidate, in nanoseconds; empty for a program of several kernels.
  std::vector<double> tune(Prepared& prepared, double budget_ms);
  // The ceiling of a case, in units of its measure.
  double ceiling(const Prepared& prepared);
  std::unique_ptr<PlainWork> plain_work(const Prepared& prepared) const;
  double device_ceiling(const Prepared& prepared);
  double device_copy();  // GB/s
  Progress& progress() { return progress_; }
  struct Opponent {
    std::string name;
    Peer* peer;
    std::vector<Tensor> outputs;  // that it computes
    Calls calls;
  };
  // Peers that have the case, called once; those that fail are named in the result.
  std::vector<Opponent> opponents(const Prepared& prepared, Result& result);

 private:
  void choose_device(const Request& request);
  void choose_sizes(const Request& request);
  void check(Prepared& prepared, const std::vector<Opponent>& opponents, Result& result) const;
  static std::string check_in_f64(const Prepared& prepared, const std::vector<Opponent>& others,
                                  const std::string& differs);
  static std::string where_else(const Prepared& prepared, const Prepared::Difference& off,
                                const std::vector<Opponent>& others);
  bool time_in_turns(Prepared& prepared, std::vector<Opponent>& others, Result& result);
  void time_ceiling(const Prepared& prepared, Result& result);
  void keep_ceiling(const Prepared& prepared, double amount, Times times, Result& result) const;
  double neighbours_advantage(const Prepared& prepared) const;
  const std::shared_ptr<Engine>& engine_of(const Workload& workload);

  const Request& request_;
  std::shared_ptr<Engine> engine_;
  std::map<Precision, std::shared_ptr<Engine>> others_;  // of workloads that name a precision
  int threads_ = 0;
  std::vector<Case> cases_;
  std::vector<std::unique_ptr<Peer>> peers_;
  Ceilings ceilings_;
  double device_copy_gbps_ = 0;
  Progress progress_;
};

}  // namespace tile::bench
