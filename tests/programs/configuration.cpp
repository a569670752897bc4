#include "tests/programs/configuration.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "backends/cpu/probe/host.h"
#include "tests/executors/run_backends.h"
#include "tests/random/random_source.h"

namespace tile::test {
namespace {

constexpr double kRaceMilliseconds = 30;
constexpr int kClassSizes = 2;  // other sizes that run first
// Of a processor that many checks share: no program is to depend on how busy the machine is.
constexpr double kCompileSecondsOfChecks = 120;

std::vector<std::string> host_features() {
  std::vector<std::string> list;
  const Target host = cpu::probe_host();
  for (const char* features : {"avx512", "avx2", "sse"}) {
    try {
      cpu::limited_to(host, features);
      list.emplace_back(features);
    } catch (const Failure&) {  // not this host's
    }
  }
  return list;
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "tile-programs-XXXXXX").string();
    internal_check(mkdtemp(pattern.data()) != nullptr, "no temporary folder");
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// As callers run it, of dense tensors, in a thread of its own: temporaries live in memory that the
// thread allocates, which operator new fills with a pattern here.
std::vector<HostTensor> run_apart(const Executable& e, const std::vector<HostTensor>& inputs) {
  std::vector<HostTensor> outputs;
  for (size_t i = 0; i < e.bound.outputs.size(); ++i) {
    outputs.emplace_back(e.output(i).type, e.output(i).shape);
    std::fill(outputs.back().bytes.begin(), outputs.back().bytes.end(), std::byte{0xa5});
  }
  std::exception_ptr thrown;
  std::thread([&] {
    try {
      tile::run(e, views_of(inputs), views_of(outputs));
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) std::rethrow_exception(thrown);
  return outputs;
}

bool same_bytes(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const HostTensor& x, const HostTensor& y) { return x.bytes == y.bytes; });
}

// One program under one configuration.
class Trial {
 public:
  Trial(std::shared_ptr<Engine> engine, const Configuration& c, const Evaluate& evaluate)
      : engine_(std::move(engine)), configuration_(c), evaluate_(evaluate), random_(c.seed) {}

  Outcome run(const std::vector<WholeCase>& cases) {
    auto loaded = std::make_shared<LoadedProgram>(engine_, cases.back().program);
    for (const WholeCase& c : cases) {
      if (outcome_.wrong.empty()) one(c, *loaded);
    }
    return outcome_;
  }

 private:
  void one(const WholeCase& drawn, LoadedProgram& loaded) {
    WholeCase c = drawn;
    Laid laid = configuration_.strided
                    ? random_layouts(random_.bits(), c.drawn.types, c.drawn.inputs)
                    : dense_layouts(c.drawn.types, c.drawn.inputs);
    // Where elements share memory the values are others, whose sums may take more digits.
    if (!same_bytes(c.drawn.inputs, laid.inputs)) c.exact.assign(c.exact.size(), false);
    c.drawn.inputs = laid.inputs;
    Expectation expected(c, evaluate_);
    std::shared_ptr<const Executable> e = compiled(c, laid, loaded);
    if (configuration_.tuned) e = tuned(*e, kRaceMilliseconds);
    std::vector<HostTensor> first = run_code(*e, c.drawn.inputs);
    compare(expected, first, "");
    if (outcome_.wrong.empty() && !configuration_.strided)
      again(expected, *e, c.drawn.inputs, first);
    if (configuration_.nests && outcome_.wrong.empty()) {
      compare(expected, run_nests(*e, c.drawn.inputs), "nests: ");
    }
  }

  // The same once more, which gives the same bytes.
  void again(const Expectation& expected, const Executable& e,
             const std::vector<HostTensor>& inputs, const std::vector<HostTensor>& first) {
    std::vector<HostTensor> second = run_apart(e, inputs);
    compare(expected, second, "second run: ");
    bool differs = configuration_.backend == "cpu" && !same_bytes(first, second);
    if (outcome_.wrong.empty() && differs) outcome_.wrong = "the second run is another";
  }

  std::shared_ptr<const Executable> compiled(const WholeCase& c, const Laid& laid,
                                             LoadedProgram& loaded) {
    std::vector<size_t> constants;
    for (size_t i = 0; i < c.drawn.inputs.size() && configuration_.constants; ++i) {
      if (random_.percent(60)) constants.push_back(i);
    }
    if (constants.empty()) return loaded.executable(laid.layouts);
    std::vector<TensorView> views = views_of(c.drawn.inputs);
    return loaded.executable(std::span<const TensorView>(views), constants);
  }

  void compare(const Expectation& expected, const std::vector<HostTensor>& got,
               const std::string& which) {
    ++outcome_.runs;
    std::string wrong = expected.disagreement(got);
    if (!wrong.empty()) outcome_.wrong = which + wrong;
  }

  std::shared_ptr<Engine> engine_;
  const Configuration& configuration_;
  const Evaluate& evaluate_;
  RandomSource random_;
  Outcome outcome_;
};

EngineOptions options_of(const Configuration& c) {
  EngineOptions options;
  options.compile_seconds = kCompileSecondsOfChecks;
  options.backend = c.backend;
  options.features = c.features;
  options.threads = c.threads;
  options.cache_mode = "off";
  options.strict_skip = true;
  return options;
}

Outcome warm(const std::vector<WholeCase>& cases, const Configuration& c,
             const Evaluate& evaluate) {
  TemporaryDirectory folder;
  EngineOptions options = options_of(c);
  options.cache_dir = folder.path() + "/cache";
  options.cache_mode = "rw";
  Outcome cold = Trial(Engine::create(options), c, evaluate).run(cases);
  if (!cold.wrong.empty()) return cold;
  Configuration restored = c;
  restored.nests = false;  // records have code only
  Outcome again = Trial(Engine::create(options), restored, evaluate).run(cases);
  if (!again.wrong.empty()) again.wrong = "from the disk cache: " + again.wrong;
  again.runs += cold.runs;
  return again;
}

}  // namespace

std::string Configuration::text() const {
  std::string list = backend + (features.empty() ? "" : " " + features);
  if (backend == "cpu") list += " threads=" + std::to_string(threads);
  for (auto [set, name] : {std::pair{nests, " nests"},
                           {tuned, " tuned"},
                           {constants, " constants"},
                           {classes, " classes"},
                           {warm, " warm"},
                           {strided, " strided"}}) {
    if (set) list += name;
  }
  return list;
}

Configuration random_configuration(uint64_t seed, const std::string& backend,
                                   const std::string& features) {
  static const std::vector<std::string> kHost = host_features();
  RandomSource random(seed ^ 0x636f6e66);
  Configuration c;
  c.backend = backend;
  c.seed = seed;
  if (backend == "cpu") {
    c.features = features.empty() ? random.pick(kHost) : features;
    c.threads = random.percent(50) ? 1 : static_cast<int>(random.in(2, 7));
    c.nests = random.percent(35);
  }
  c.tuned = random.percent(4);
  c.constants = random.percent(15);
  c.classes = random.percent(12);
  c.warm = random.percent(6);
  c.strided = !c.constants && !c.classes && random.percent(30);
  return c;
}

std::shared_ptr<Engine> ProgramRunner::engine(const Configuration& c) {
  std::shared_ptr<Engine>& made =
      engines_[c.backend + " " + c.features + " " + std::to_string(c.threads)];
  if (!made) made = Engine::create(options_of(c));
  return made;
}

Outcome outcome_of(const std::function<Outcome()>& work, bool on_gpu) {
  try {
    return work();
  } catch (const Failure& failure) {
    const Diagnostic& d = failure.diagnostic();
    return {std::string(to_string(d.stage)) + " error " + d.code + ": " + failure.what(), 0,
            d.code == "launch" && on_gpu};
  } catch (const InternalError& error) {
    return {std::string("internal error: ") + error.what(), 0, false};
  } catch (const std::exception& error) {
    return {std::string("exception: ") + error.what(), 0, false};
  }
}

std::vector<WholeCase> cases_of(const WholeProgram& program, const Configuration& configuration) {
  std::vector<WholeCase> cases;
  RandomSource random(configuration.seed);
  for (int i = 0; configuration.classes && i < kClassSizes; ++i) {
    Sizes sizes = program.sizes;
    auto at = std::next(sizes.begin(), random.in(0, std::ssize(sizes) - 1));
    at->second = std::max<int64_t>(1, at->second + random.in(-6, 9));
    try {
      WholeProgram other = resized(program, sizes);
      if (text_of(other) != text_of(program)) continue;  // a size is a number
      WholeCase c = case_of(other);
      c.exact.assign(c.exact.size(), false);
      evaluated(c, c.drawn.inputs);
      cases.push_back(std::move(c));
    } catch (const Failure&) {  // not at these sizes
    }
  }
  cases.push_back(case_of(program));
  return cases;
}

Outcome ProgramRunner::run(const WholeProgram& program, const Configuration& configuration) {
  return outcome_of([&] { return run(cases_of(program, configuration), configuration); });
}

Outcome ProgramRunner::run(const std::vector<WholeCase>& cases, const Configuration& configuration,
                           const Evaluate& evaluate) {
  auto work = [&] {
    if (configuration.warm) return tile::test::warm(cases, configuration, evaluate);
    return Trial(engine(configuration), configuration, evaluate).run(cases);
  };
  return outcome_of(work, configuration.backend != "cpu");
}

Evaluate evaluate_on_cpu() {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  return [engine](const WholeCase& c, const std::vector<HostTensor>& inputs) {
    return run_code(
        *compile(engine, c.program, dense_layouts(types_for(c, inputs), inputs).layouts), inputs);
  };
}

}  // namespace tile::test
