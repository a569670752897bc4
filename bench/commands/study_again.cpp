// tile-bench study --again: what today's model picks of the schedules that an earlier study
// measured. Needs no device: `--features` names the architecture that was measured.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/commands/commands.h"
#include "bench/commands/study_shapes.h"
#include "bench/report/progress.h"
#include "core/schedule/cost/estimate.h"
#include "core/schedule/space/candidates.h"
#include "runtime/cli/files.h"

namespace tile::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNever = std::numeric_limits<double>::infinity();

// The model's pick of one kernel, and the fastest schedule that was measured.
struct Repriced {
  std::string pick, fastest;
  double best = kNever, estimate = kNever;
  std::optional<double> taken;  // nanoseconds of the pick; nothing: it was not measured
};

Repriced repriced(const Kernel& kernel, const Target& target, const Json& trace) {
  std::map<std::string, double> measured;
  for (const Json& row : trace) {  // null: it could not be launched
    if (row.at(0).is_number()) measured[row.at(2).get<std::string>()] = row.at(0).get<double>();
  }
  Repriced r;
  for (const Schedule& s : whole_space(kernel, target, kStudiedSpace)) {
    double ns = estimate(s, kernel, target);
    std::string text = one_line(s);
    auto known = measured.find(text);
    std::optional<double> took;
    if (known != measured.end()) took = known->second;
    if (took && *took < r.best) {
      r.best = *took;
      r.fastest = text;
    }
    if (ns >= r.estimate) continue;
    r.estimate = ns;
    r.pick = text;
    r.taken = took;
  }
  return r;
}

// Of a program: its kernels one after the other.
struct Outcome {
  double best = 0, taken = 0;
  bool known = true;
};

class Again {
 public:
  explicit Again(const StudyOptions& options) : options_(options) {}

  void add(const std::string& name, const Executable& e, const Json& kernels) {
    Outcome o;
    size_t k = 0;
    for (const Launch& launch : e.launches) {
      if (!launch.kernel || k == kernels.size()) continue;
      Repriced r = repriced(*launch.kernel, e.engine->target(), kernels[k++].at("trace"));
      o.best += r.best;
      o.taken += r.taken.value_or(0);
      o.known = o.known && r.taken.has_value();
      if (options_.trace) print_picks(r);
    }
    std::printf("%-52s %s\n", name.c_str(),
                o.known ? share_text(o.best / o.taken).c_str() : "the pick was not measured");
    std::fflush(stdout);
    if (o.known) {
      sum_ += std::log(o.best / o.taken);
      worst_ = std::min(worst_, o.best / o.taken);
    }
    (o.known ? known_ : unknown_) += 1;
  }
  // The exit status.
  int finish() const {
    double mean = known_ > 0 ? std::exp(sum_ / static_cast<double>(known_)) : 0;
    std::printf(
        "%zu shapes: the picks' share of the best %.3f, worst %.3f; %zu picks were not "
        "measured\n",
        known_ + unknown_, mean, worst_, unknown_);
    return mean >= options_.least ? 0 : 1;
  }

 private:
  static std::string share_text(double share) {
    char text[16];
    std::snprintf(text, sizeof text, "%.3f", share);
    return text;
  }
  static void print_picks(const Repriced& r) {
    std::printf("  pick %s, estimated %s: %s\n  best %s: %s\n",
                r.taken ? time_text(*r.taken).c_str() : "not measured",
                time_text(r.estimate).c_str(), r.pick.c_str(), time_text(r.best).c_str(),
                r.fastest.c_str());
  }

  const StudyOptions& options_;
  double sum_ = 0, worst_ = 1;
  size_t known_ = 0, unknown_ = 0;
};

[[noreturn]] void fail_no_trace(const std::string& path) {
  fail(Stage::run, "file", {}, path + ": not a study with every measured schedule",
       "write it with tile-bench study --trace --json " + path);
}

}  // namespace

int command_study_again(const Request& request, const StudyOptions& options) {
  std::shared_ptr<Engine> engine = cli::make_engine(request.engine);
  Json before = Json::parse(cli::read_text(options.again), nullptr, false);
  if (!before.is_object() || !before.contains("shapes")) fail_no_trace(options.again);
  Again again(options);
  try {
    const Json& drawn = before.at("context");
    const double scale = drawn.at("scale");
    const int64_t multiple = drawn.at("multiple");
    std::optional<DType> type = parse_dtype(drawn.at("type").get<std::string>());
    bool drawable = scale >= kLeastScale && scale <= kMostScale && multiple >= 1 &&
                    multiple <= kMostMultiple && type.has_value();
    if (!drawable) fail_no_trace(options.again);
    StudyCases cases(drawn.at("seed"), scale, multiple);
    for (size_t i = 0; i < before["shapes"].size(); ++i) {
      StudyCase c = cases.next(i);
      const Json& entry = before["shapes"][i];
      bool wanted = c.name.find(request.filter) != std::string::npos;
      if (wanted && entry.at("name") == c.name) {
        again.add(c.name, *study_executable(engine, c, *type), entry.at("kernels"));
      }
    }
  } catch (const Json::exception&) {
    fail_no_trace(options.again);
  }
  return again.finish();
}

}  // namespace tile::bench
