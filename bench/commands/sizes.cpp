// tile-bench sizes: networks with one open size, run at every size of a range: how many codes each
// kernel takes, what the first call of a size takes, and how far shared code is from a size's own.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "bench/commands/commands.h"
#include "bench/measure/size_networks.h"
#include "bench/measure/tensor.h"
#include "bench/measure/timing.h"
#include "bench/report/json_file.h"
#include "bench/report/progress.h"
#include "runtime/engine/engine.h"

namespace tile::bench {
namespace {

using Json = nlohmann::ordered_json;
// Of the process: what other work the machine has does not count.
double processor_ms() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// Runs of which a kernel's least time is taken, and in how many turns with those of other code.
constexpr int kKernelRuns = 200, kTurns = 10;

// Inputs and outputs of one size.
struct Tensors {
  Tensors(const SizeNetwork& network, int64_t size) {
    uint32_t seed = 1;
    for (const Shape& shape : network.at(size)) {
      inputs.emplace_back(InputType{DType::f32, shape, {}});
      fill(inputs.back(), seed++);
    }
  }
  void take_outputs(const Executable& e) {
    for (size_t i = 0; i < e.bound.outputs.size(); ++i) {
      outputs.emplace_back(InputType{e.output(i).type, e.output(i).shape, {}});
    }
  }
  std::vector<InputLayout> layouts() const {
    std::vector<InputLayout> list;
    for (const Tensor& t : inputs) list.push_back({{t.type(), t.shape()}, {}});
    return list;
  }
  std::vector<Tensor> inputs, outputs;
};

void run_once(const Executable& e, const Tensors& t) {
  std::vector<TensorView> in = views(t.inputs), out = views(t.outputs);
  run(e, in, out);
}

// The least time of each launch up to now.
void take_kernel_ns(const Executable& e, const Tensors& t, int runs, std::vector<double>& least) {
  std::vector<TensorView> in = views(t.inputs), out = views(t.outputs);
  std::vector<double> now;
  for (int i = 0; i < runs; ++i) {
    RunOptions options;
    now.clear();
    options.profile = &now;
    tile::run(e, in, out, options);
    if (least.empty()) least = now;
    for (size_t l = 0; l < now.size(); ++l) least[l] = std::min(least[l], now[l]);
  }
}

// Of both, in turns: what else the machine does takes its share of each.
struct KernelTimes {
  KernelTimes(const Executable& a, const Executable& b, const Tensors& t) {
    for (int turn = 0; turn < kTurns; ++turn) {
      take_kernel_ns(a, t, kKernelRuns / kTurns, one);
      take_kernel_ns(b, t, kKernelRuns / kTurns, two);
    }
  }
  double ratio() const {
    return std::accumulate(one.begin(), one.end(), 0.0) /
           std::accumulate(two.begin(), two.end(), 0.0);
  }
  std::vector<double> one, two;
};

struct Outcome {
  size_t kernels = 0;
  size_t codes = 0;       // compiled for all sizes
  size_t most_codes = 0;  // of one kernel
  // What the first call of a size takes of the processor before it runs, where it compiled nothing:
  // the most, and the median.
  double first_ms = 0, median_ms = 0;
  int64_t first_at = 0;  // the size that takes the most
  double class_ms = 0;   // the most that one takes that compiles, the very first call beside
  std::map<std::string, std::set<int64_t>> own;  // sizes whose kernels share no code, by the reason
  double worst = 0, mean = 0;                    // time of shared code over a size's own
  int64_t worst_at = 0;
  // The same of the kernels' least times, which other work on the machine decides less.
  double least_worst = 0, least_mean = 0;
  int64_t least_worst_at = 0;
  // The same at that size once it has run so often that it got its own code in the background, and
  // how long it took from the last of these runs until it had it.
  double settled = 0, settled_ms = 0;
};

class Sizes {
 public:
  Sizes(const Request& request, const SizesOptions& options, const SizeNetwork& network)
      : options_(options), network_(network) {
    engine_options_.backend = "cpu";
    engine_options_.features = request.engine.features;
    engine_options_.threads = request.engine.threads;
    engine_options_.cache_mode = "off";
    size_t enough = engine_options_.own_code_runs;
    engine_options_.own_code_runs = 0;
    engine_ = Engine::create(engine_options_);
    program_ = loaded(engine_);
    engine_options_.own_code_runs = enough;
  }

  Outcome run(Progress& progress) {
    std::vector<int64_t> sizes;
    for (int64_t n = options_.from; n <= options_.to; ++n) sizes.push_back(n);
    std::mt19937 random(options_.seed);
    std::shuffle(sizes.begin(), sizes.end(), random);
    for (int64_t n : sizes) {
      progress.show(std::string(network_.name) + ": size " + std::to_string(n));
      first_call(n);
    }
    finish();
    if (options_.times) compare(progress);
    if (options_.times && outcome_.least_worst > 0) settle(progress);
    return outcome_;
  }

 private:
  std::shared_ptr<LoadedProgram> loaded(const std::shared_ptr<Engine>& engine) const {
    auto source = std::make_shared<Source>(Source{network_.name, network_.text});
    return std::make_shared<LoadedProgram>(
        engine, std::make_shared<Program>(parse(Language::tile, source)));
  }

  void first_call(int64_t n) {
    Tensors t(network_, n);
    uint64_t before = engine_->kernels().compiled;
    double start = processor_ms();
    std::shared_ptr<const Executable> e = program_->executable(t.layouts());
    double ms = processor_ms() - start;
    t.take_outputs(*e);
    run_once(*e, t);
    if (engine_->kernels().compiled == before) known_ms_.emplace_back(ms, n);
    if (engine_->kernels().compiled > before && before > 0) {
      outcome_.class_ms = std::max(outcome_.class_ms, ms);
    }
    outcome_.kernels = std::max(outcome_.kernels, e->launches.size());
    for (size_t l = 0; l < e->launches.size(); ++l) {
      if (e->launches[l].code) codes_[l].insert(e->launches[l].key);
      const std::string& why = e->launches[l].own_code_because;
      if (!why.empty()) outcome_.own[why].insert(n);
    }
  }

  void finish() {
    outcome_.codes = engine_->kernels().compiled;
    for (const auto& [launch, keys] : codes_) {
      outcome_.most_codes = std::max(outcome_.most_codes, keys.size());
    }
    std::sort(known_ms_.begin(), known_ms_.end());
    if (known_ms_.empty()) return;
    std::tie(outcome_.first_ms, outcome_.first_at) = known_ms_.back();
    outcome_.median_ms = known_ms_[known_ms_.size() / 2].first;
  }

  // Some sizes' shared code and their own, in turns.
  void compare(Progress& progress) {
    double logs = 0, least_logs = 0, count = 0;
    for (int64_t n : {2, 3, 5, 7, 8, 9, 11, 13, 16, 17, 23, 29, 33, 41, 48, 57, 63, 64}) {
      if (n < options_.from || n > options_.to) continue;
      progress.show(std::string(network_.name) + ": size " + std::to_string(n) + " and its own");
      Tensors t(network_, n);
      std::shared_ptr<const Executable> shared = program_->executable(t.layouts());
      std::shared_ptr<const Executable> own = with_own_code(*shared);
      t.take_outputs(*shared);
      std::vector<Times> times = interleave({{"shared", timed([&] { run_once(*shared, t); })},
                                             {"own", timed([&] { run_once(*own, t); })}},
                                            options_.timing);
      double ratio = in_turns(times[0], times[1]);
      logs += std::log(ratio);
      double least = KernelTimes(*shared, *own, t).ratio();
      least_logs += std::log(least);
      if (least > outcome_.least_worst) outcome_.least_worst_at = n;
      outcome_.least_worst = std::max(outcome_.least_worst, least);
      ++count;
      if (ratio <= outcome_.worst) continue;
      outcome_.worst = ratio;
      outcome_.worst_at = n;
    }
    if (options_.kernels && count > 0) print_kernels(outcome_.worst_at);
    outcome_.least_mean = count > 0 ? std::exp(least_logs / count) : 0;
    outcome_.mean = count > 0 ? std::exp(logs / count) : 0;
  }

  // As in a program that runs one size over and over: its own code in place of the shared one.
  void settle(Progress& progress) {
    int64_t n = outcome_.least_worst_at;
    progress.show(std::string(network_.name) + ": size " + std::to_string(n) + ", often");
    std::shared_ptr<LoadedProgram> program = loaded(Engine::create(engine_options_));
    Tensors t(network_, n);
    // What comes first has its own code at once.
    program->executable(
        Tensors(network_, n == options_.to ? options_.from : options_.to).layouts());
    std::vector<TensorView> inputs = views(t.inputs);
    std::shared_ptr<LiveExecutable> live = program->live(inputs);
    t.take_outputs(*live->snapshot());
    for (size_t i = 0; i < engine_options_.own_code_runs; ++i) run_once(*live->snapshot(), t);
    outcome_.settled_ms = 1e3 * seconds_until([&] { return !shares_code(*live->snapshot()); });
    std::shared_ptr<const Executable> now = live->snapshot(), own = with_own_code(*now);
    outcome_.settled = KernelTimes(*now, *own, t).ratio();
  }
  static bool shares_code(const Executable& e) {
    return std::any_of(e.launches.begin(), e.launches.end(),
                       [](const Launch& l) { return !l.parameters.empty(); });
  }
  // How long it takes until that is so, a minute at most.
  template <class Done>
  static double seconds_until(const Done& done) {
    using Clock = std::chrono::steady_clock;
    Clock::time_point start = Clock::now();
    auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    while (!done() && seconds() < 60) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return seconds();
  }

  // Shared code and a size's own, kernel by kernel.
  void print_kernels(int64_t n) {
    Tensors t(network_, n);
    std::shared_ptr<const Executable> shared = program_->executable(t.layouts());
    std::shared_ptr<const Executable> own = with_own_code(*shared);
    t.take_outputs(*shared);
    auto [one, two] = KernelTimes(*shared, *own, t);
    for (size_t l = 0; l < std::max(one.size(), two.size()); ++l) {
      std::printf("  size %lld, kernel %zu: shared %.2f us, own %.2f us\n",
                  static_cast<long long>(n), l, l < one.size() ? one[l] / 1e3 : 0.0,
                  l < two.size() ? two[l] / 1e3 : 0.0);
    }
  }

  const SizesOptions& options_;
  const SizeNetwork& network_;
  EngineOptions engine_options_;
  std::shared_ptr<Engine> engine_;
  std::shared_ptr<LoadedProgram> program_;
  std::map<size_t, std::set<std::string>> codes_;  // by launch
  // Of first calls that compiled nothing, and at which size.
  std::vector<std::pair<double, int64_t>> known_ms_;
  Outcome outcome_;
};

Json json_of(const SizeNetwork& network, const Outcome& o) {
  Json own = Json::object();
  for (const auto& [why, sizes] : o.own) own[why] = sizes;
  return {{"name", network.name},
          {"open", network.open},
          {"kernels", o.kernels},
          {"codes", o.codes},
          {"most_codes", o.most_codes},
          {"new_size_ms", o.first_ms},
          {"new_size_at", o.first_at},
          {"median_ms", o.median_ms},
          {"class_ms", o.class_ms},
          {"over_own_worst", o.worst},
          {"worst_at", o.worst_at},
          {"over_own_mean", o.mean},
          {"least_over_own_mean", o.least_mean},
          {"least_over_own_worst", o.least_worst},
          {"least_over_own_worst_at", o.least_worst_at},
          {"settled_over_own", o.settled},
          {"settled_ms", o.settled_ms},
          {"own_code", std::move(own)}};
}

}  // namespace

int command_sizes(const Request& request, const SizesOptions& options) {
  check_request(request);
  Progress progress;
  Json json = Json::array();
  bool few = true;
  std::printf(
      "%-34s %-8s kernels  codes  most of one  new size ms  median  new class ms"
      "  over own: mean worst  of least times: mean worst  after often: ratio, ms\n",
      "network", "open");
  for (const SizeNetwork& network : size_networks()) {
    if (std::string(network.name).find(request.filter) == std::string::npos) continue;
    Outcome o = Sizes(request, options, network).run(progress);
    progress.clear();
    std::printf(
        "%-34s %-8s %7zu %6zu %12zu %6.2f at %2lld %7.2f %13.1f %14.3f %.3f at %lld %10.3f %.3f at "
        "%lld %10.3f %.1f\n",
        network.name, network.open, o.kernels, o.codes, o.most_codes, o.first_ms,
        static_cast<long long>(o.first_at), o.median_ms, o.class_ms, o.mean, o.worst,
        static_cast<long long>(o.worst_at), o.least_mean, o.least_worst,
        static_cast<long long>(o.least_worst_at), o.settled, o.settled_ms);
    for (const auto& [why, sizes] : o.own) {
      std::printf("  code of its own at %zu sizes, first %lld: %s\n", sizes.size(),
                  static_cast<long long>(*sizes.begin()), why.c_str());
    }
    std::fflush(stdout);
    few = few && o.most_codes <= options.most_codes;
    json.push_back(json_of(network, o));
  }
  if (!request.json.empty()) replace_file(request.json, json.dump(1) + "\n");
  return few ? 0 : 1;
}

}  // namespace tile::bench
