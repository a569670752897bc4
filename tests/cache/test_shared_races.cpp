// A race compiles few kernels (issue 4, items 1 and 5): schedules that differ in blocks share one,
// only the last few get code of their own, and what wins computes what it should. A short race
// compiles no shared ones.
#include <gtest/gtest.h>

#include "core/interpret/interpret.h"
#include "core/schedule/cost/time_bound.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/search/search.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/tuning/tune.h"
#include "tests/executors/run_backends.h"

namespace tile::test {
namespace {

constexpr size_t kFinalists = 4;
constexpr double kAmple = 60e3;  // milliseconds
constexpr double kNear = 1.05;   // times the bound; a race asks for a little less

// How many schedules the race measured, and whether it could end before all of them since one takes
// the time that the machine's rates say is the least.
struct Tried {
  size_t schedules = 0;
  bool near_bound = false;
};
Tried expect_few_compiled_once(const char* text, const std::vector<Shape>& shapes) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  std::shared_ptr<LoadedProgram> program = loaded(engine, text);
  std::vector<HostTensor> inputs;
  std::vector<InputLayout> layouts;
  for (const Shape& shape : shapes) {
    inputs.push_back(integers(shape, static_cast<int64_t>(inputs.size())));
    layouts.push_back({{DType::f32, shape}, {}});
  }
  std::shared_ptr<const Executable> e = program->executable(layouts);
  HostTensor before = run_code(*e, inputs)[0];
  const Launch& launch = e->launches.at(0);
  uint64_t compiled = engine->kernels().compiled;
  Tried tried;
  KernelTimer timer(*e, launch);
  double bound = bound_ns(*launch.kernel, engine->target(), engine->measured_rates());
  auto progress = [&](size_t n, size_t, double best) {
    tried = {n, best <= kNear * bound && kNear * best >= bound};
  };
  std::optional<Schedule> found = race(*e, launch, timer, kAmple, progress);
  EXPECT_LE(engine->kernels().compiled - compiled, 2 * kSharedKernels + kFinalists);
  if (found) {  // something is faster than what runs now
    EXPECT_EQ(illegal(*found, *launch.kernel, engine->target()), "");
    EXPECT_NE(timer.code(*found), nullptr);  // its own
    EXPECT_LT(timer.best(*found), std::numeric_limits<double>::infinity());
  }
  EXPECT_EQ(run_code(*tuned(*e, kAmple), inputs)[0].bytes, before.bytes);
  return tried;
}

// A race near the bound that the machine's rates give ends before: rates measured beside other
// tests may put it anywhere, so an engine with rates of its own tries again.
void expect_few_compiled(const char* text, const std::vector<Shape>& shapes) {
  constexpr size_t kAll = 2 * 36;  // two short lists of 36, of eight kernels each
  Tried tried;
  for (int i = 0; i < 4 && tried.schedules < kAll; ++i) {
    tried = expect_few_compiled_once(text, shapes);
  }
  EXPECT_TRUE(tried.schedules >= kAll || tried.near_bound) << tried.schedules;
}

TEST(SharedRaces, ProductCompilesFewKernels) {
  expect_few_compiled(
      "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }",
      {{200, 160}, {160, 240}});
}

TEST(SharedRaces, ConvolutionCompilesFewKernels) {
  expect_few_compiled(
      "function (I[N, H, W, CI], K[KH, KW, CI, CO]) -> (O) {"
      " O[n, y, x, co: N, H, W, CO] ="
      "  +(I[n, y + j - (KH - 1) / 2, x + i - (KW - 1) / 2, ci] * K[j, i, ci, co]); }",
      {{2, 14, 14, 32}, {3, 3, 32, 64}});
}

// A short race compiles codes of their own alone, as many as its time allows, and without time
// nothing changes.
TEST(SharedRaces, AShortRaceStopsCompiling) {
  constexpr double kShort = 30;  // milliseconds
  std::shared_ptr<Engine> engine = test_engine("cpu");
  std::shared_ptr<LoadedProgram> program = loaded(
      engine, "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }");
  std::vector<HostTensor> inputs{integers({90, 70}, 1), integers({70, 110}, 2)};
  std::shared_ptr<const Executable> e =
      program->executable({{{DType::f32, {90, 70}}, {}}, {{DType::f32, {70, 110}}, {}}});
  HostTensor before = run_code(*e, inputs)[0];
  uint64_t compiled = engine->kernels().compiled;
  KernelTimer none(*e, e->launches.at(0));
  EXPECT_FALSE(race(*e, e->launches.at(0), none, 0));
  EXPECT_EQ(engine->kernels().compiled, compiled);
  KernelTimer timer(*e, e->launches.at(0));
  std::optional<Schedule> found = race(*e, e->launches.at(0), timer, kShort);
  EXPECT_LT(engine->kernels().compiled - compiled, 72U);  // not the whole field
  EXPECT_TRUE(!found || timer.code(*found) != nullptr);
  EXPECT_EQ(run_code(*tuned(*e, kShort), inputs)[0].bytes, before.bytes);
}

}  // namespace
}  // namespace tile::test
