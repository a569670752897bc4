#include "runtime/cli/tune_command.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/engine/fleet/fleet_tune.h"
#include "runtime/engine/records/record_set.h"
#include "runtime/engine/tuning/kernel_timer.h"

namespace tile::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSeconds = 10;

// A line on standard error that changes, where that is a terminal.
class ProgressLine {
 public:
  ~ProgressLine() { clear(); }
  void show(const std::string& text) {
    if (!terminal_) return;
    std::fprintf(stderr, "\r\033[K%s", text.c_str());
    std::fflush(stderr);
    shown_ = true;
  }
  void clear() {
    if (shown_) std::fputs("\r\033[K", stderr);
    shown_ = false;
  }

 private:
  bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool shown_ = false;
};

std::string left_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, ", at most %.0f s left", std::max(0.0, std::ceil(seconds)));
  return text;
}

// What a launch's kernel ran before, and runs now.
struct Tuned {
  std::string name, before, after;  // schedules, as texts
  double before_ns = 0, after_ns = 0;
  std::string record = {};
};

std::vector<Tuned> compared(const Executable& before, const Executable& after) {
  TuningRecords& records = after.engine->kernels().records(after.engine->target());
  std::vector<Tuned> list;
  for (size_t i = 0; i < after.launches.size(); ++i) {
    const Launch& launch = after.launches[i];
    if (!launch.kernel) continue;
    Tuned t{launch.kernel->name, print(before.launches.at(i).schedule), print(launch.schedule)};
    for (const RankedSchedule& r : records.ranking(record_key(*launch.kernel))) {
      if (r.record.schedule == t.before) t.before_ns = r.ns;
      if (r.record.schedule != t.after) continue;
      t.after_ns = r.ns;
      t.record = describe(r, records.processor());
    }
    list.push_back(std::move(t));
  }
  return list;
}

// Why nothing of what is found is kept for other processes; empty: it is.
std::string not_kept(Engine& engine) {
  const KernelCache& kernels = engine.kernels();
  if (!kernels.keeps_records()) return "the disk cache is off (TILE_CACHE=off)";
  if (!kernels.directory()) return "the cache directory cannot be used (tile doctor says why)";
  return kernels.writes() ? "" : "the disk cache is not written (TILE_CACHE=ro)";
}

std::string to_text(const Tuned& t) {
  if (t.after_ns == 0) return "kernel " + t.name + ": nothing found is faster\n";
  std::string change = t.before == t.after ? ", as before" : "";
  if (t.before != t.after && t.before_ns > 0) {
    char factor[32];
    std::snprintf(factor, sizeof factor, "%.2f", t.before_ns / t.after_ns);
    change = ", before " + time_text(t.before_ns) + ": " + factor + " times as fast";
  }
  std::string record = t.record.empty() ? "" : "  record " + t.record + "\n";
  return "kernel " + t.name + ": " + time_text(t.after_ns) + change + "\n" + record;
}

Json to_json(const std::vector<Tuned>& list) {
  Json kernels = Json::array();
  for (const Tuned& t : list) {
    Json k;
    k["kernel"] = t.name;
    k["changed"] = t.before != t.after;
    if (t.before_ns > 0) k["before_ns"] = t.before_ns;
    if (t.after_ns > 0) k["ns"] = t.after_ns;
    if (!t.record.empty()) k["record"] = t.record.substr(0, t.record.find(':'));
    k["schedule"] = t.after;
    kernels.push_back(std::move(k));
  }
  return kernels;
}

std::shared_ptr<const Executable> tuned_alone(const Executable& e, double seconds) {
  ProgressLine line;
  double start = now_ns();
  auto progress = [&](const std::string& kernel, size_t tried, size_t total, double best_ns) {
    double left = seconds - (now_ns() - start) / 1e9;
    line.show("kernel " + kernel + ": candidate " + std::to_string(tried) + " of " +
              std::to_string(total) + ", best " + time_text(best_ns) + left_text(left));
  };
  constexpr double kMilliseconds = 1000;
  return tuned(e, kMilliseconds * seconds, progress);
}

using Directory = std::shared_ptr<const PrivateDirectory>;

// Null without --share.
Directory shared_directory(const TuneArguments& arguments) {
  if (arguments.share.empty()) return nullptr;
  std::string why;
  Directory directory = PrivateDirectory::open(arguments.share, true, why);
  if (directory) return directory;
  fail(Stage::run, "argument", {}, "--share " + arguments.share + " cannot be used: " + why,
       "name a directory of your own that nobody else may open, or one that is not there yet");
}

std::shared_ptr<const Executable> tuned_by_all(const Executable& e, const Directory& directory,
                                               const TuneArguments& arguments,
                                               FleetReport& report) {
  ProgressLine line;
  double start = now_ns();
  FleetOptions options;
  options.seconds = arguments.seconds;
  options.candidates = arguments.candidates;
  options.confirmations = arguments.confirmations;
  options.progress = [&](const FleetProgress& now) {
    std::string text = now.kernel.empty() ? "waiting for other workers" : "kernel " + now.kernel;
    text += ": " + std::to_string(now.timed) + " of " + std::to_string(now.total) + " candidates";
    if (now.best_ns > 0) text += ", best " + time_text(now.best_ns);
    if (arguments.seconds > 0) text += left_text(arguments.seconds - (now_ns() - start) / 1e9);
    line.show(text);
  };
  return tuned_together(e, directory, options, report);
}

void require_sense(const TuneArguments& arguments) {
  constexpr size_t kMostCandidates = 10000;  // more than a space has
  if (arguments.candidates == 0 || arguments.candidates > kMostCandidates ||
      arguments.confirmations == 0) {
    fail(Stage::run, "argument", {}, "--candidates and --confirm are at least 1",
         "there are at most 10000 candidates");
  }
}

// What came of it, for people or as JSON. `report` null: this process tuned alone. `lost`: why no
// record is kept; empty: they are.
void tell(const std::vector<Tuned>& list, const FleetReport* report, const std::string& lost,
          bool as_json) {
  if (as_json) {
    Json json;
    json["kernels"] = to_json(list);
    json["kept"] = lost.empty();
    if (!lost.empty()) json["why"] = lost;
    if (report != nullptr) {
      json["timed"] = report->timed;
      json["decided"] = report->decided;
      json["complete"] = report->complete;
    }
    std::cout << json.dump(-1, ' ', false, Json::error_handler_t::replace) << "\n";
    return;
  }
  for (const Tuned& t : list) std::cout << to_text(t);
  if (!lost.empty()) {
    std::cout << (report == nullptr ? "no record is kept: " : "records are kept there alone: ")
              << lost << "\n";
  }
  if (report == nullptr) return;
  std::cout << "this worker timed " << report->timed << " candidates and decided "
            << report->decided << " kernels; "
            << (report->complete ? "all are decided\n" : "the rest is left: run it again\n");
}

}  // namespace

int command_tune(const std::string& file, const Inputs& inputs, const TuneArguments& arguments,
                 const Options& options) {
  require_sense(arguments);
  Directory shared = shared_directory(arguments);
  std::shared_ptr<Engine> engine = make_engine(options);
  std::string lost = engine->is_reference() ? "" : not_kept(*engine);
  std::shared_ptr<LoadedProgram> program = load(engine, file, options);
  std::shared_ptr<const Executable> before = compiled(*program, inputs);
  return located(program->program().source, [&] {
    if (before->restored) before = compile_stages(*before);
    std::shared_ptr<const Executable> after;
    FleetReport report;
    if (!shared) {
      after = tuned_alone(*before, arguments.seconds > 0 ? arguments.seconds : kSeconds);
    } else {
      after = tuned_by_all(*before, shared, arguments, report);
    }
    std::vector<Tuned> list;
    if (!engine->is_reference()) list = compared(*before, *after);
    // What nobody can look up is no record.
    for (Tuned& t : list) t.record = lost.empty() ? t.record : "";
    tell(list, shared ? &report : nullptr, lost, arguments.json);
    return 0;
  });
}

}  // namespace tile::cli
