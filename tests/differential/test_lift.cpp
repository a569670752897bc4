// Random compositions of Lift patterns, compiled, against a direct interpreter of patterns.
#include <gtest/gtest.h>

#include <cmath>

#include "core/language/lift/lift.h"
#include "tests/executors/run_backends.h"
#include "tests/random/random_lift.h"

namespace tile::test {
namespace {

HostTensor run_lift(const std::shared_ptr<Engine>& engine, const LiftTrial& t) {
  auto source = std::make_shared<const Source>(Source{"random.lift", t.text});
  try {
    auto program = std::make_shared<const Program>(parse_lift(source));
    HostTensor x(DType::f32, Shape(t.dims.begin(), t.dims.end()));
    for (size_t i = 0; i < t.input.size(); ++i) {
      x.set(static_cast<int64_t>(i), real_scalar(t.input[i], DType::f32));
    }
    std::shared_ptr<Executable> e =
        compile(engine, program, {InputLayout{{DType::f32, x.shape}, {}}});
    return run_code(*e, {x}).at(0);
  } catch (const Failure& failure) {
    ADD_FAILURE() << t.text << "\n" << render(failure.diagnostic(), *source);
  }
  return {};
}

TEST(LiftRandom, CompiledPatternsMeanWhatADirectInterpreterSays) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  for (unsigned seed = 100'000; seed < 100'150; ++seed) {
    LiftTrial t = lift_trial(seed);
    HostTensor got = run_lift(engine, t);
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
    ASSERT_EQ(got.shape, Shape(t.expected_dims.begin(), t.expected_dims.end())) << t.text;
    for (size_t i = 0; i < t.expected.size(); ++i) {
      double want = t.expected[i], have = convert(got.at(static_cast<int64_t>(i)), DType::f64).f;
      ASSERT_NEAR(have, want, 1e-4 * (1 + std::abs(want)))
          << "seed " << seed << ", element " << i << ": " << t.text;
    }
  }
}

}  // namespace
}  // namespace tile::test
