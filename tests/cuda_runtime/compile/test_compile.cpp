// Kernels of the suites compile with the real NVRTC for GPUs that are not here, and spill nothing.
#include <gtest/gtest.h>

#include <cstdlib>

#include "bench/workload.h"
#include "tests/executors/run_backends.h"

namespace tile::test {
namespace {

std::shared_ptr<Engine> engine_for(const char* architecture) {
  unsetenv("TILE_CUDA_DRIVER");
  setenv("TILE_NVRTC", TILE_REAL_NVRTC, 1);
  EngineOptions options;
  options.backend = "cuda";
  options.features = architecture;
  options.cache_mode = "off";
  return Engine::create(std::move(options));
}

class Compiling : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(TILE_REAL_NVRTC).empty()) GTEST_SKIP() << "no NVRTC on this machine";
  }
};

void expect_no_spills(const Executable& e, const std::string& name) {
  for (const Launch& launch : e.launches) {
    if (launch.code) {
      EXPECT_FALSE(launch.code->spills()) << name << ", kernel " << launch.nest.name;
    }
  }
}

TEST_P(Compiling, RandomProgramsCompileAndSpillNothing) {
  std::shared_ptr<Engine> engine = engine_for(GetParam());
  for (uint64_t seed : seeds(0, 40)) {
    RandomCase drawn = random_case(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
    expect_no_spills(*compiled(engine, drawn), "random program");
  }
}

// The analytic picks at the sizes that are measured.
TEST_P(Compiling, WorkloadsSpillNothing) {
  std::shared_ptr<Engine> engine = engine_for(GetParam());
  for (const bench::Case& c : bench::read_cases(TILE_SOURCE_DIR "/bench/workloads/cuda")) {
    std::shared_ptr<LoadedProgram> program = bench::load(engine, c);
    expect_no_spills(*program->executable(bench::layouts(*program, c)), c.name);
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, Compiling, ::testing::Values("sm_80", "sm_90a"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace tile::test
