// tile-bench study: how near the model's pick and the short race come to the best of all aligned
// schedules.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "bench/commands/commands.h"
#include "bench/commands/study_shapes.h"
#include "bench/measure/timing.h"
#include "bench/report/json_file.h"
#include "bench/report/progress.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/space/candidates.h"
#include "runtime/cli/files.h"
#include "runtime/engine/tuning/kernel_timer.h"
#include "runtime/engine/tuning/tune.h"

namespace tile::bench {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr size_t kCompiledTogether = 32;
constexpr size_t kFinalists = 8;
constexpr int kFinalRounds = 25;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// One kernel: nanoseconds of the model's pick, the race's and the best schedule of all.
struct KernelOutcome {
  double first = 0, tuned = 0, best = 0, race_ms = 0;
  double beside = 0, again = 0;  // the best schedule, and compiled once more
  bool kept = false;             // the race changed nothing
  size_t space = 0, measured = 0;
  KernelTimer::Spent race;
  Schedule first_schedule, tuned_schedule, best_schedule;
};

class KernelStudy {
 public:
  KernelStudy(const Executable& e, const Launch& launch, const StudyOptions& options,
              Progress& progress, std::string name)
      : executable_(e),
        launch_(launch),
        options_(options),
        progress_(progress),
        name_(std::move(name)),
        timer_(e, launch) {}

  KernelOutcome outcome() {
    KernelOutcome o;
    auto start = Clock::now();
    o.first_schedule = launch_.schedule;
    std::optional<Schedule> found = race(executable_, launch_, timer_, options_.race_ms);
    o.tuned_schedule = found.value_or(launch_.schedule);
    o.kept = !found;
    o.race_ms = milliseconds_since(start);
    o.race = timer_.spent();
    screen();
    std::vector<Schedule> last = finalists(o.tuned_schedule);
    std::vector<double> times = in_final_turns(last, o.first);
    o.tuned = found ? times[0] : o.first;  // what was kept runs as it is
    auto best = std::min_element(times.begin(), times.end());
    o.best = std::min(*best, o.first);
    o.best_schedule =
        *best < o.first ? last[static_cast<size_t>(best - times.begin())] : launch_.schedule;
    measure_again(o);
    o.space = space_.size();
    o.measured = screened_.size();
    return o;
  }
  // Of every schedule that was measured: nanoseconds, the model's estimate, the schedule.
  Json trace() const {
    Json list = Json::array();
    const Target& target = executable_.engine->target();
    for (auto [ns, at] : screened_) {
      const Schedule& s = space_[at];
      list.push_back({ns, estimate(s, *launch_.kernel, target), one_line(s)});
    }
    return list;
  }

 private:
  // Every schedule of the space, the best by the model first, while there is time.
  void screen() {
    auto start = Clock::now();
    space_ = whole_space(*launch_.kernel, executable_.engine->target(), kStudiedSpace);
    double best = std::numeric_limits<double>::infinity();
    for (size_t at = 0; at < space_.size(); at += kCompiledTogether) {
      double spent = milliseconds_since(start) / 1e3;
      if (spent > options_.seconds) return;
      auto some = std::span(space_).subspan(at, std::min(kCompiledTogether, space_.size() - at));
      timer_.prepare(some);
      for (size_t i = 0; i < some.size(); ++i) {
        double ns = timer_(some[i]);
        best = std::min(best, ns);
        screened_.emplace_back(ns, at + i);
      }
      progress_.show(name_ + ": " + std::to_string(at) + " of " + std::to_string(space_.size()) +
                     " schedules, best " + time_text(best));
    }
  }

  // Nanoseconds of each schedule: what an untuned call takes, times their ratio to it in turns.
  std::vector<double> in_final_turns(const std::vector<Schedule>& last, double& untuned) {
    Times first;
    std::vector<Times> times(last.size());
    for (int round = 0; round < kFinalRounds; ++round) {
      for (size_t i = 0; i < last.size(); ++i) times[i].real.push_back(timer_(last[i]));
      first.real.push_back(timer_.as_compiled());
    }
    untuned = first.median();
    std::vector<double> result;
    for (const Times& t : times) result.push_back(untuned * in_turns(t, first));
    return result;
  }

  // The best schedule as if it were a pick: compiled anew, on other memory, timed in turns with
  // itself. No pick can be expected to come nearer.
  void measure_again(KernelOutcome& o) {
    KernelTimer timer(executable_, launch_);
    Times beside, again;
    for (int round = 0; round < kFinalRounds; ++round) {
      beside.real.push_back(timer_(o.best_schedule));
      again.real.push_back(timer(o.best_schedule));
    }
    o.beside = beside.median();
    o.again = o.beside * in_turns(again, beside);
  }

  // The race's pick, then the fastest of the screened ones.
  std::vector<Schedule> finalists(const Schedule& tuned) {
    std::sort(screened_.begin(), screened_.end());
    std::vector<Schedule> last{tuned};
    for (size_t i = 0; i < std::min(kFinalists, screened_.size()); ++i) {
      const Schedule& s = space_[screened_[i].second];
      if (s != tuned) last.push_back(s);
    }
    return last;
  }

  const Executable& executable_;
  const Launch& launch_;
  const StudyOptions& options_;
  Progress& progress_;
  std::string name_;
  KernelTimer timer_;
  std::vector<Schedule> space_;
  std::vector<std::pair<double, size_t>> screened_;  // nanoseconds, place in the space
};

// The sums over a program's kernels.
Json studied(const std::shared_ptr<Engine>& engine, const StudyCase& c, const StudyOptions& options,
             Progress& progress) {
  std::shared_ptr<const Executable> e = study_executable(engine, c, options.type);
  double first = 0, tuned = 0, best = 0, beside = 0, again = 0, race_ms = 0;
  Json entry, kernels = Json::array();
  for (const Launch& launch : e->launches) {
    if (!launch.kernel) continue;
    KernelStudy study(*e, launch, options, progress, c.name);
    KernelOutcome o = study.outcome();
    first += o.first;
    tuned += o.tuned;
    best += o.best;
    beside += o.beside;
    again += o.again;
    race_ms += o.race_ms;
    kernels.push_back({{"schedules", o.space},
                       {"measured", o.measured},
                       {"best_ns", o.best},
                       {"analytic_ns", o.first},
                       {"tuned_ns", o.tuned},
                       {"beside_ns", o.beside},
                       {"again_ns", o.again},
                       {"kept", o.kept},
                       {"race_ms", o.race_ms},
                       {"race_compiled", o.race.compiled},
                       {"race_compiling_ms", o.race.compiling_ns / 1e6},
                       {"race_running_ms", o.race.running_ns / 1e6},
                       {"best", one_line(o.best_schedule)},
                       {"analytic", one_line(o.first_schedule)},
                       {"tuned", one_line(o.tuned_schedule)}});
    if (options.trace) kernels.back()["trace"] = study.trace();
  }
  entry["name"] = c.name;
  entry["best_ns"] = best;
  entry["analytic_ns"] = first;
  entry["tuned_ns"] = tuned;
  entry["beside_ns"] = beside;
  entry["again_ns"] = again;
  entry["race_ms"] = race_ms;
  entry["kernels"] = std::move(kernels);
  return entry;
}

struct Mean {
  double mean = 1, low = 1, high = 1, worst = 1;
};
// The geometric mean with its 95 % confidence interval, and the least.
Mean mean_of(const std::vector<double>& ratios) {
  double sum = 0, squares = 0;
  auto n = static_cast<double>(ratios.size());
  for (double r : ratios) sum += std::log(r);
  double mean = sum / n;
  for (double r : ratios) squares += (std::log(r) - mean) * (std::log(r) - mean);
  double half = n > 1 ? 1.96 * std::sqrt(squares / (n - 1) / n) : 0;
  return {std::exp(mean), std::exp(mean - half), std::exp(mean + half),
          *std::min_element(ratios.begin(), ratios.end())};
}
std::string text_of(const Mean& m) {
  char text[100];
  std::snprintf(text, sizeof text, "%.3f [%.3f, %.3f], worst %.3f", m.mean, m.low, m.high, m.worst);
  return text;
}
Json json_of(const Mean& m) {
  return {{"geomean", m.mean}, {"low", m.low}, {"high", m.high}, {"worst", m.worst}};
}

// The results so far, kept in a file after each shape.
class StudyFile {
 public:
  StudyFile(const Request& request, const std::string& device, const StudyOptions& options)
      : path_(request.json) {
    context_ = {{"device", device},
                {"seed", options.seed},
                {"scale", options.scale},
                {"multiple", options.multiple},
                {"type", std::string(to_string(options.type))}};
    if (!request.resume || path_ == "-" || !std::filesystem::exists(path_)) return;
    Json before = Json::parse(cli::read_text(path_), nullptr, false);
    if (!before.is_object() || before["context"] != context_) {
      fail(Stage::run, "file", {}, path_ + ": not a study of this machine, seed, scale and type");
    }
    for (const Json& entry : before["shapes"]) entries_.push_back(entry);
  }

  const Json* find(const std::string& name) const {
    for (const Json& e : entries_) {
      if (e["name"] == name) return &e;
    }
    return nullptr;
  }
  void add(Json entry) {
    entries_.push_back(std::move(entry));
    if (path_ != "-") write();
  }
  void finish() const {
    write();
    if (entries_.empty() || path_ == "-") return;
    std::printf("%zu shapes, shares of the best: analytic %s; tuned %s\n", entries_.size(),
                text_of(mean("best_ns", "analytic_ns")).c_str(),
                text_of(mean("best_ns", "tuned_ns")).c_str());
    std::printf("the best schedule, compiled and timed once more: %s\n",
                text_of(mean("beside_ns", "again_ns")).c_str());
    Mean untuned = mean("tuned_ns", "analytic_ns");
    std::printf("an untuned call takes at most %.2f times a tuned one, a race %.0f ms on average\n",
                1 / untuned.worst, race_ms());
  }

 private:
  Mean mean(const char* over, const char* under) const {
    std::vector<double> ratios;
    for (const Json& e : entries_) {
      ratios.push_back(e[over].get<double>() / e[under].get<double>());
    }
    return mean_of(ratios);
  }
  double race_ms() const {
    double sum = 0;
    for (const Json& e : entries_) sum += e["race_ms"].get<double>();
    return sum / static_cast<double>(entries_.size());
  }
  void write() const {
    if (path_.empty()) return;
    Json json;
    json["context"] = context_;
    if (!entries_.empty()) {
      json["summary"] = {{"shapes", entries_.size()},
                         {"analytic_share", json_of(mean("best_ns", "analytic_ns"))},
                         {"tuned_share", json_of(mean("best_ns", "tuned_ns"))},
                         {"again_share", json_of(mean("beside_ns", "again_ns"))},
                         {"untuned_over_tuned", json_of(mean("tuned_ns", "analytic_ns"))},
                         {"race_ms", race_ms()}};
    }
    json["shapes"] = entries_;
    replace_file(path_, json.dump(1) + "\n");
  }

  std::string path_;
  Json context_;
  std::vector<Json> entries_;
};

void print_row(const Json& e) {
  size_t space = 0, measured = 0;
  for (const Json& k : e["kernels"]) {
    space += k["schedules"].get<size_t>();
    measured += k["measured"].get<size_t>();
  }
  double best = e["best_ns"];
  std::printf("%-48s %5zu of %5zu schedules, best %8s, analytic %.3f, tuned %.3f of it\n",
              e["name"].get<std::string>().c_str(), measured, space, time_text(best).c_str(),
              best / e["analytic_ns"].get<double>(), best / e["tuned_ns"].get<double>());
  std::fflush(stdout);
}

}  // namespace

int command_study(const Request& request, const StudyOptions& options) {
  if (!options.again.empty()) return command_study_again(request, options);
  check_request(request);
  std::shared_ptr<Engine> engine = cli::make_engine(request.engine);
  Progress progress;
  StudyFile file(request, engine->device(), options);
  StudyCases cases(options.seed, options.scale, options.multiple);
  for (size_t i = 0; i < options.shapes; ++i) {
    StudyCase c = cases.next(i);
    if (c.name.find(request.filter) == std::string::npos) continue;
    const Json* known = file.find(c.name);
    if (known == nullptr) {
      progress.show(c.name + ": compiling");
      Json entry = studied(engine, c, options, progress);
      progress.clear();
      if (request.json != "-") print_row(entry);
      file.add(std::move(entry));
    }
  }
  file.finish();
  return 0;
}

}  // namespace tile::bench
