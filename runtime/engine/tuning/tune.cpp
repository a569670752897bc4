// Tuning: a race for each kernel, the winners in a copy of the executable.
#include "runtime/engine/tuning/tune.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "backends/fork.h"
#include "core/kernel/forms/prepacking.h"
#include "runtime/engine/constants.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/launch/device_run.h"
#include "runtime/engine/launch/donations.h"
#include "runtime/engine/launch/memory_plan.h"
#include "runtime/engine/records/tuning_records.h"
#include "runtime/engine/steps/known_blocks.h"
#include "runtime/engine/tuning/record_race.h"

namespace tile {

namespace {

// The record of a schedule; null: there is none.
std::shared_ptr<const RankedSchedule> record_in(TuningRecords& records, const Kernel& kernel,
                                                const std::string& schedule) {
  for (RankedSchedule& known : records.ranking(record_key(kernel))) {
    if (known.record.schedule == schedule) {
      return std::make_shared<const RankedSchedule>(std::move(known));
    }
  }
  return nullptr;
}

// What the race of one launch's kernel leaves of it: the launch as it was, or with the winner's
// code.
void race_launch(const Executable& e, Launch& launch, double budget_ms,
                 const TuningProgress& progress) {
  const Kernel& kernel = *launch.kernel;
  KernelTimer timer(e, launch);
  RaceProgress report;
  if (progress) {
    report = [&](size_t tried, size_t total, double best) {
      progress(kernel.name, tried, total, best);
    };
  }
  std::optional<Schedule> found = race(e, launch, timer, budget_ms, report);
  if (!found && !launch.parameters.empty()) return;  // the code of a class of sizes
  if (!found && timer.times_as_compiled().empty()) timer.as_compiled();
  std::string before = print(launch.schedule);
  if (found) launch.schedule = std::move(*found);
  std::string verdict = print(launch.schedule);
  bool is_device = e.engine->session() != nullptr;
  auto others = timer.times();
  if (launch.parameters.empty() && !timer.times_as_compiled().empty()) {
    others[before] = timer.times_as_compiled();
  }
  const auto& times = found ? timer.times(launch.schedule) : timer.times_as_compiled();
  TuningRecords& records = e.engine->kernels().records(e.engine->target());
  records.add(records_of_race(kernel, verdict, times, std::move(others), is_device));
  launch.record = record_in(records, kernel, verdict);
  if (!found) return;
  launch.nest = lowered(e, kernel, launch.schedule);
  launch.prepared = copies_for(e, kernel, launch.schedule);
  launch.parameters.clear();
  launch.key.clear();
  std::shared_ptr<const Code> trial = timer.code(launch.schedule);
  if (trial) e.engine->kernels().keep(*launch.nest, e.engine->target(), trial);
  make_code(e, launch);
}

// Those of loops' steps, too.
size_t kernel_count(const Executable& e) {
  size_t count = 0;
  for (const Launch& launch : e.launches) {
    if (launch.kernel) ++count;
    if (launch.loop) count += kernel_count(*launch.loop->step);
  }
  return count;
}

// The races of all kernels, one after the other.
class Races {
 public:
  Races(double budget_ms, size_t kernels, const TuningProgress& progress)
      : budget_ms_(budget_ms), left_(kernels), progress_(progress) {}

  void run(Executable& e) {
    std::vector<Launch> launches = e.launches;
    for (Launch& launch : launches) {
      if (launch.loop) {
        auto step = std::make_shared<Executable>(*launch.loop->step);
        run(*step);
        launch.loop->step = std::move(step);
        std::shared_ptr<const StepsInBlocks>& blocks = launch.loop->blocks;
        if (blocks && !computes_the_same(*launch.loop->step, *blocks)) blocks = nullptr;
      }
      if (!launch.kernel) continue;
      // What the races before left is shared by the rest.
      double left_ms = std::max(0.0, budget_ms_ - (now_ns() - start_) / 1e6);
      race_launch(e, launch, left_ms / static_cast<double>(left_), progress_);
      --left_;
    }
    e.launches = std::move(launches);
    e.own_code_later = nullptr;
    e.in_blocks = std::make_shared<KnownBlocks>();
    e.copies.clear();
    e.densified.clear();
    plan_memory(e);
    e.donations = donations_of(e);
    prepare_copies(e);
    e.call = call_plan(e);
    if (e.engine->session() != nullptr) prepare_device(e);
  }

 private:
  double budget_ms_, start_ = now_ns();
  size_t left_;  // kernels
  const TuningProgress& progress_;
};

}  // namespace

std::shared_ptr<const Executable> tuned(const Executable& before, double budget_ms,
                                        const TuningProgress& progress) {
  if (!std::isfinite(budget_ms) || budget_ms < 0) {
    fail(Stage::run, "argument", {}, "a tuning budget of " + std::to_string(budget_ms) + " ms",
         "give a finite number of milliseconds that is not negative");
  }
  if (before.engine->options().deterministic) {
    fail(Stage::run, "argument", {}, "a deterministic engine tunes nothing",
         "tune with an engine that is not deterministic");
  }
  LockingCall call;
  auto e = before.restored ? compile_stages(before) : std::make_shared<Executable>(before);
  if (e->engine->is_reference()) return e;
  Races(budget_ms, kernel_count(*e), progress).run(*e);
  return e;
}

}  // namespace tile
