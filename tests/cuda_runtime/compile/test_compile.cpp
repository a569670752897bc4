// Kernels of the suites compile with the real NVRTC for GPUs that are not here: they spill nothing,
// and no asynchronous matrix product waits for another.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <set>

#include "bench/measure/workload.h"
#include "tests/executors/run_backends.h"
#include "tests/random/sweep.h"

namespace tile::test {
namespace {

std::shared_ptr<Engine> engine_for(const std::string& architecture,
                                   const std::string& precision = "f32") {
  unsetenv("TILE_CUDA_DRIVER");
  setenv("TILE_NVRTC", TILE_REAL_NVRTC, 1);
  EngineOptions options;
  options.backend = "cuda";
  options.features = architecture;
  options.precision = precision;
  options.cache_mode = "off";
  return Engine::create(std::move(options));
}

// A code that spills is one whose registers do not suffice or whose products are serialised.
void expect_no_spills(const Executable& e, const std::string& name) {
  for (const Launch& launch : e.launches) {
    if (launch.code) {
      EXPECT_FALSE(launch.code->spills()) << name << ", kernel " << launch.nest->name;
    }
  }
}

void expect_workload_spills_nothing(const std::shared_ptr<Engine>& engine, const bench::Case& c) {
  std::shared_ptr<LoadedProgram> program = bench::load(engine, c);
  expect_no_spills(*program->executable(bench::layouts(*program, c)), c.name);
}

std::vector<bench::Case> workloads() {
  return bench::read_cases(TILE_SOURCE_DIR "/bench/workloads/cuda");
}

// The first case of each suite that is measured.
std::vector<bench::Case> representatives() {
  std::vector<bench::Case> list;
  std::set<std::string> suites;
  for (bench::Case& c : workloads()) {
    if (suites.insert(c.workload->suite).second) list.push_back(std::move(c));
  }
  return list;
}

class Compiling : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(TILE_REAL_NVRTC).empty()) GTEST_SKIP() << "no NVRTC on this machine";
  }
};

TEST_P(Compiling, RandomProgramsCompileAndSpillNothing) {
  std::shared_ptr<Engine> engine = engine_for(GetParam());
  for (uint64_t seed : seeds(0, 40)) {
    RandomCase drawn = random_case(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
    expect_no_spills(*compiled(engine, drawn), "random program");
  }
}

TEST_P(Compiling, ProductsOfEveryPrecisionSpillNothing) {
  for (const char* precision : {"tf32", "3xtf32"}) {
    std::shared_ptr<Engine> engine = engine_for(GetParam(), precision);
    for (const bench::Case& c : representatives()) {
      if (!c.workload->precision && c.workload->suite.find("f32") != std::string::npos) {
        expect_workload_spills_nothing(engine, c);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, Compiling, ::testing::Values("sm_80", "sm_90a"),
                         [](const auto& tested) { return std::string(tested.param); });

// The analytic picks at the sizes that are measured, suite by suite.
class CompilingSuite : public ::testing::TestWithParam<std::tuple<const char*, std::string>> {
 protected:
  void SetUp() override {
    if (std::string(TILE_REAL_NVRTC).empty()) GTEST_SKIP() << "no NVRTC on this machine";
  }
};

std::vector<std::string> suites() {
  std::vector<std::string> list;
  for (const bench::Case& c : representatives()) list.push_back(c.workload->suite);
  return list;
}

// For the older architecture the first case of each program stands for all, but in a sweep.
TEST_P(CompilingSuite, SpillsNothing) {
  const auto& [architecture, suite] = GetParam();
  bool older = std::string(architecture) == "sm_80";
  std::set<const bench::Workload*> known;
  for (const bench::Case& c : workloads()) {
    if (c.workload->suite != suite) continue;
    bool first = known.insert(c.workload.get()).second;
    if (older && !first && !swept(1, 2)) continue;
    Precision precision = c.workload->precision.value_or(Precision::f32);
    SCOPED_TRACE(c.name);
    expect_workload_spills_nothing(engine_for(architecture, std::string(to_string(precision))), c);
  }
}

auto name_of = [](const auto& tested) {
  std::string name = std::get<0>(tested.param) + std::string("_") + std::get<1>(tested.param);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
};
INSTANTIATE_TEST_SUITE_P(Every, CompilingSuite,
                         ::testing::Combine(::testing::Values("sm_80", "sm_90a"),
                                            ::testing::ValuesIn(suites())),
                         name_of);

}  // namespace
}  // namespace tile::test
