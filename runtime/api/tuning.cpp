// The functions of tile.h that race schedules, and that move what races found.
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "runtime/api/handles.h"
#include "runtime/engine/fleet/fleet_tune.h"
#include "runtime/engine/lean.h"
#include "runtime/engine/records/record_set.h"

using namespace tile;
using namespace tile::api;

namespace {

void require_no_fleet(const tile_tune_options& o) {
  if (o.candidates == 0 && o.confirmations == 0) return;
  fail(Stage::run, "argument", {}, "candidates and confirmations are those of a shared directory",
       "set share_dir");
}

std::shared_ptr<const Executable> tuned_alone(const Executable& e, const tile_tune_options& o) {
  require_no_fleet(o);
  TuningProgress progress;
  if (o.progress != nullptr) {
    progress = [&](const std::string& kernel, size_t tried, size_t total, double best_ns) {
      o.progress(o.progress_user, kernel.c_str(), tried, total, best_ns);
    };
  }
  return tuned(e, o.budget_ms, progress);
}

std::shared_ptr<const Executable> tuned_by_all(const Executable& e, const tile_tune_options& o) {
  constexpr double kMilliseconds = 1e-3;  // in seconds
  if (!(o.budget_ms >= 0 && o.budget_ms <= std::numeric_limits<double>::max())) {
    fail(Stage::run, "argument", {}, "a tuning budget of " + std::to_string(o.budget_ms) + " ms",
         "give a finite number of milliseconds that is not negative");
  }
  std::string why;
  auto directory = PrivateDirectory::open(o.share_dir, true, why);
  if (!directory) {
    fail(Stage::run, "argument", {}, "the shared directory cannot be used: " + why);
  }
  FleetOptions options;
  options.seconds = kMilliseconds * o.budget_ms;
  if (o.candidates != 0) options.candidates = o.candidates;
  if (o.confirmations != 0) options.confirmations = o.confirmations;
  if (o.progress != nullptr) {
    options.progress = [&](const FleetProgress& now) {
      o.progress(o.progress_user, now.kernel.c_str(), now.timed, now.total, now.best_ns);
    };
  }
  FleetReport report;
  return tuned_together(e, directory, options, report);
}

TuningRecords& records_of(Engine& engine) {
  if (engine.is_reference()) {
    fail(Stage::run, "argument", {}, "the reference interpreter has no tuning records");
  }
  return engine.kernels().records(engine.target());
}

}  // namespace

extern "C" {

tile_error* tile_executable_tune(tile_executable* executable, double budget_ms) {
  tile_tune_options options{};
  options.struct_size = sizeof options;
  options.budget_ms = budget_ms;
  return tile_executable_tune_with(executable, &options);
}

tile_error* tile_executable_tune_with(tile_executable* executable,
                                      const tile_tune_options* options) {
  REQUIRE_ALONE(executable);
  REQUIRE(options);
  LiveExecutable& live = *executable->executable;
  return watched(live.source()->source.get(), *live.snapshot()->engine, Stage::compile, [&] {
    tile_tune_options o = given_options(options);
    std::shared_ptr<const Executable> before = live.snapshot();
    std::shared_ptr<const Executable> after =
        o.share_dir == nullptr ? tuned_alone(*before, o) : tuned_by_all(*before, o);
    live.replace(without_stages(*after));
  });
}

tile_error* tile_engine_records_export(tile_engine* engine, char** lines) {
  REQUIRE(lines);
  *lines = nullptr;
  REQUIRE(engine);
  return guarded(nullptr, [&] {
    TuningRecords& records = records_of(*engine->engine);
    RecordSet all;
    for (const TuningRecord& r : records.all()) all.add(records.processor(), r);
    *lines = duplicate(all.text());
  });
}

tile_error* tile_engine_records_import(tile_engine* engine, const char* lines, size_t size,
                                       size_t* imported) {
  if (imported != nullptr) *imported = 0;
  REQUIRE(engine);
  REQUIRE(lines);
  return guarded(nullptr, [&] {
    Engine& own = *engine->engine;
    TuningRecords& records = records_of(own);
    RecordSet given, known;
    given.add({lines, size}, earlier_target(own.target(), own.skipped_passes()),
              records.processor());
    for (const TuningRecord& r : records.all()) known.add(records.processor(), r);
    std::vector<TuningRecord> fresh;
    for (const auto& [kernel, list] : given.of(records.processor())) {
      for (const TuningRecord& r : list) {
        if (!known.has(records.processor(), r)) fresh.push_back(r);
      }
    }
    records.add(fresh);
    if (imported != nullptr) *imported = fresh.size();
  });
}

}  // extern "C"
