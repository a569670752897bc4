// Random compositions of Lift patterns: a direct interpreter of patterns on nested arrays against
// the program that the front end makes of the text, before and after the passes (lift
// rules 2.1, 2.2, 2.3).
#include <gtest/gtest.h>

#include <cmath>

#include "core/interpret/interpret.h"
#include "core/language/lift/lift.h"
#include "core/passes/bind/bind.h"
#include "core/pipeline/pipeline.h"
#include "tests/random/random_lift.h"

namespace tile::test {
namespace {

HostTensor run_lift(const LiftTrial& t, bool passes) {
  auto source = std::make_shared<const Source>(Source{"random.lift", t.text});
  try {
    Program program = parse_lift(source);
    HostTensor x(DType::f32, Shape(t.dims.begin(), t.dims.end()));
    for (size_t i = 0; i < t.input.size(); ++i) {
      x.set(static_cast<int64_t>(i), real_scalar(t.input[i], DType::f32));
    }
    BoundProgram bound = tile::bind(program, {{DType::f32, x.shape}});
    verify(bound);
    if (passes) run_pipeline(bound, Target{});
    return interpret(bound, {x}).outputs.at(0);
  } catch (const Failure& failure) {
    ADD_FAILURE() << t.text << "\n" << render(failure.diagnostic(), *source);
  } catch (const InternalError& error) {
    ADD_FAILURE() << t.text << "\n" << error.what();
  }
  return {};
}

TEST(LiftRandom, PatternsMeanWhatADirectInterpreterSays) {
  int nonzero = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    LiftTrial t = lift_trial(seed);
    HostTensor got = run_lift(t, seed % 2 == 1);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
    ASSERT_EQ(got.shape, Shape(t.expected_dims.begin(), t.expected_dims.end()))
        << "seed " << seed << ": " << t.text;
    for (size_t i = 0; i < t.expected.size(); ++i) {
      double want = t.expected[i], have = convert(got.at(static_cast<int64_t>(i)), DType::f64).f;
      nonzero += want != 0;
      ASSERT_NEAR(have, want, 1e-4 * (1 + std::abs(want)))
          << "seed " << seed << ", element " << i << ": " << t.text;
    }
  }
  EXPECT_GT(nonzero, 10000);
}

}  // namespace
}  // namespace tile::test
