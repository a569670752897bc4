// Boundary rules, conditions on indices, index values and folds, lowered and partitioned: the Nest
// interpreter against the reference, and interiors without choices on indices.
#include <gtest/gtest.h>

#include "core/interpret/interpret.h"
#include "core/nest/interior.h"
#include "core/passes/pipeline.h"
#include "tests/random/agreement.h"
#include "tests/random/random_elements.h"
#include "tests/random/random_program.h"
#include "tests/unit/schedule_kernels.h"
#include "tests/unit/step_runner.h"

namespace tile::test {
namespace {

// `schedule` 0 is the analytic pick.
void expect_elements_agree(uint64_t seed, uint64_t schedule, const ElementOptions& options) {
  ElementProgram drawn = random_elements(seed, options);
  SCOPED_TRACE("seed " + std::to_string(seed) + ", schedule " + std::to_string(schedule) + ":\n" +
               print(drawn.program));
  try {
    verify(drawn.program);
    Interpretation expected = interpret(drawn.program, drawn.inputs, {}, true);
    Target target = seed % 2 == 0 ? testing::wide_target() : testing::small_target();
    BoundProgram program = drawn.program;
    run_pipeline(program, target);
    StepRunner runner(program, drawn.inputs);
    for (const Step& step : group(program, target)) {
      ASSERT_NO_FATAL_FAILURE(runner.run(step, schedule, target));
    }
    EXPECT_EQ(difference(expected, runner.outputs(), true), "");
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
  } catch (const Failure& failure) {
    ADD_FAILURE() << failure.what();
  }
}

TEST(LowerElements, AnalyticSchedules) {
  for (uint64_t seed : seeds(0, 300)) expect_elements_agree(seed, 0, {});
}

TEST(LowerElements, RandomSchedules) {
  for (uint64_t seed : seeds(0, 300)) expect_elements_agree(seed, seed + 1, {});
}

TEST(LowerElements, WithInteriors) {
  ElementOptions large;
  large.large = true;
  for (uint64_t seed : seeds(0, 60)) expect_elements_agree(seed, seed % 3, large);
}

}  // namespace
}  // namespace tile::test
