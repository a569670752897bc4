// Random programs through the passes, grouping, lowering and the nest interpreter, against the
// reference interpreter.
#include <algorithm>
#include <cstdlib>
#include <functional>

#include "core/fusion/group.h"
#include "core/interpret/whole_tensor.h"
#include "core/kernel/schedule.h"
#include "core/lower/lower.h"
#include "core/nest/nest.h"
#include "core/pipeline/pipeline.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_program.h"
#include "tests/support/run_tile.h"
#include "tests/support/schedule_kernels.h"
#include "tests/support/step_runner.h"

namespace tile::test {
namespace {

// `schedule` 0 is the analytic pick.
void expect_lowered_agrees(uint64_t seed, uint64_t schedule, const RandomOptions& options,
                           std::optional<Target> gpu = std::nullopt) {
  RandomCase drawn = random_case(seed, options);
  BoundProgram program = bind_text(drawn.text, drawn.types);
  Interpretation expected = interpret(program, drawn.inputs, {}, true);
  Target target = seed % 2 == 0 ? testing::wide_target() : testing::small_target();
  if (gpu) target = *gpu;
  std::string reproduce = "seed " + std::to_string(seed) + ", schedule " +
                          std::to_string(schedule) + ":\n" + drawn.text;
  SCOPED_TRACE(reproduce);
  try {
    run_pipeline(program, target);
    StepRunner runner(program, drawn.inputs);
    for (const Step& step : group(program, target)) {
      ASSERT_NO_FATAL_FAILURE(runner.run(step, schedule, target));
    }
    EXPECT_EQ(difference(expected, runner.outputs(), drawn.exact), "");
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
  } catch (const Failure& failure) {
    ADD_FAILURE() << failure.what();
  }
}

// The model's pick and random schedules of a program's kernels, each run against `expected`; `ran`
// is told of each run.
void expect_schedules_agree(const BoundProgram& program, const RandomCase& drawn,
                            const Interpretation& expected, uint64_t seed, const Target& target,
                            const std::function<void(const StepRunner&)>& ran) {
  std::vector<Step> steps = group(program, target);
  for (uint64_t schedule : {uint64_t{0}, seed + 1, seed + 1000, seed + 2000}) {
    StepRunner runner(program, drawn.inputs);
    for (const Step& step : steps) {
      ASSERT_NO_FATAL_FAILURE(runner.run(step, schedule, target));
    }
    EXPECT_EQ(difference(expected, runner.outputs(), drawn.exact), "");
    ran(runner);
  }
}

TEST(LowerRandom, AnalyticSchedules) {
  for (uint64_t seed : seeds(0, 150)) expect_lowered_agrees(seed, 0, {});
}

TEST(LowerRandom, RandomSchedules) {
  for (uint64_t seed : seeds(0, 150)) expect_lowered_agrees(seed, seed + 1, {});
}

TEST(LowerRandom, RealsNanAndInfinities) {
  RandomOptions reals;
  reals.real_values = true;
  for (uint64_t seed : seeds(0, 50)) expect_lowered_agrees(seed, seed % 3, reals);
}

TEST(LowerRandom, LargePrograms) {
  RandomOptions large;
  large.large = true;
  for (uint64_t seed : seeds(0, 4)) expect_lowered_agrees(seed, seed % 2, large);
}

// Extents that stay parameters of the nest.
TEST(LowerRandom, ClassesOfSizes) {
  int classes = 0;
  for (uint64_t seed : seeds(0, 400)) {
    RandomCase drawn = random_case(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
    BoundProgram program = bind_text(drawn.text, drawn.types);
    Interpretation expected = interpret(program, drawn.inputs, {}, true);
    Target target = seed % 2 == 0 ? testing::wide_target() : testing::small_target();
    target.class_work_ns = 0;
    run_pipeline(program, target);
    ASSERT_NO_FATAL_FAILURE(
        expect_schedules_agree(program, drawn, expected, seed, target,
                               [&](const StepRunner& runner) { classes += runner.classes(); }));
  }
  std::printf("%d kernels for classes of sizes\n", classes);
  if (std::getenv("TILE_TEST_SEEDS") != nullptr) return;
  EXPECT_GT(classes, 5);
}

// What schedules pack of inputs that stay the same is packed before the kernels run.
TEST(LowerRandom, InputsThatStayTheSame) {
  int prepared = 0;
  for (uint64_t seed : seeds(0, 300)) {
    RandomCase drawn = random_case(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
    BoundProgram program = bind_text(drawn.text, drawn.types);
    Interpretation expected = interpret(program, drawn.inputs, {}, true);
    Target target = seed % 2 == 0 ? testing::wide_target() : testing::small_target();
    if (seed % 3 == 0) target.class_work_ns = 0;
    for (TensorId id : program.inputs) program.tensors.edit(id).fixed = true;
    run_pipeline(program, target);
    ASSERT_NO_FATAL_FAILURE(
        expect_schedules_agree(program, drawn, expected, seed, target,
                               [&](const StepRunner& runner) { prepared += runner.prepared(); }));
  }
  std::printf("%d copies made before\n", prepared);
  if (std::getenv("TILE_TEST_SEEDS") != nullptr) return;
  EXPECT_GT(prepared, 100);
}

// Issue 5, item 4: the nests of GPU schedules run in the interpreter.
TEST(LowerRandom, GpuAnalyticSchedules) {
  for (uint64_t seed : seeds(0, 150)) {
    expect_lowered_agrees(seed, 0, {}, seed % 2 == 0 ? h200_target() : a100_target());
  }
}

TEST(LowerRandom, GpuRandomSchedules) {
  for (uint64_t seed : seeds(0, 150)) expect_lowered_agrees(seed, seed + 1, {}, h200_target());
}

TEST(LowerRandom, GpuRealsNanAndInfinities) {
  RandomOptions reals;
  reals.real_values = true;
  for (uint64_t seed : seeds(0, 50)) expect_lowered_agrees(seed, seed % 3, reals, h200_target());
}

}  // namespace
}  // namespace tile::test
