// Compiled element programs (boundary rules, index values, folds) against the Nest interpreter, on
// every vector width.
#include <gtest/gtest.h>

#include "core/fusion/group.h"
#include "core/kernel/schedule.h"
#include "core/lower/lower.h"
#include "core/nest/passes/nest_passes.h"
#include "core/pipeline/pipeline.h"
#include "core/schedule/space/candidates.h"
#include "tests/cpu/nests.h"
#include "tests/random/random_elements.h"
#include "tests/random/random_program.h"
#include "tests/random/sweep.h"
#include "tests/support/random_schedule.h"

namespace tile::cpu {
namespace {

void expect_compiled_agrees(uint64_t seed, const test::ElementOptions& options) {
  test::ElementProgram drawn = test::random_elements(seed, options);
  SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + print(drawn.program));
  Target target;
  target.device = "cpu";
  target.threads = 2;
  if (seed % 2 == 0) {
    target.vector_bits = 512;
    target.vector_registers = 32;
  }
  BoundProgram program = drawn.program;
  run_pipeline(program, target);
  for (const Step& step : group(program, target)) {
    const auto& kernel = std::get<Kernel>(step);
    Schedule schedule =
        seed % 3 == 0 ? random_schedule(kernel, target, seed) : analytic_schedule(kernel, target);
    nest::Nest nest = nest::run_passes(lower(kernel, schedule, target), target);
    expect_as_interpreted(nest, small_integers(nest, seed));
  }
}

TEST(CpuElements, Small) {
  for (uint64_t seed : test::sweep(0, 40, 16)) expect_compiled_agrees(seed, {});
}

TEST(CpuElements, WithInteriors) {
  test::ElementOptions large;
  large.large = true;
  for (uint64_t seed : test::seeds(500, 8)) expect_compiled_agrees(seed, large);
}

}  // namespace
}  // namespace tile::cpu
