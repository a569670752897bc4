// Random compositions of Lift patterns, compiled, against a direct interpreter of patterns.
#include <gtest/gtest.h>

#include <cmath>

#include "core/language/lift/lift.h"
#include "tests/executors/run_backends.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/random_lift.h"

namespace tile::test {
namespace {

// Dense, then in a layout that keeps the values, which the direct interpreter has, too.
HostTensor run_lift(const std::shared_ptr<Engine>& engine, const LiftTrial& t, uint64_t seed) {
  auto source = std::make_shared<const Source>(Source{"random.lift", t.text});
  try {
    auto program = std::make_shared<const Program>(parse_lift(source));
    HostTensor x(DType::f32, Shape(t.dims.begin(), t.dims.end()));
    for (size_t i = 0; i < t.input.size(); ++i) {
      x.set(static_cast<int64_t>(i), real_scalar(t.input[i], DType::f32));
    }
    InputType type{DType::f32, x.shape, std::nullopt};
    HostTensor dense =
        run_code(*compile(engine, program, dense_layouts({type}, {x}).layouts), {x}).at(0);
    Laid strided = random_layouts(seed, {type}, {x}, Sharing::no);
    HostTensor other = run_code(*compile(engine, program, strided.layouts), {x}).at(0);
    Interpretation expected;
    expected.outputs = expected.magnitudes = {dense};
    EXPECT_EQ(difference(expected, {other}, false), "") << described(strided) << t.text;
    return dense;
  } catch (const Failure& failure) {
    ADD_FAILURE() << t.text << "\n" << render(failure.diagnostic(), *source);
  } catch (const InternalError& error) {
    ADD_FAILURE() << t.text << "\n" << error.what();
  }
  return {};
}

TEST(LiftRandom, CompiledPatternsMeanWhatADirectInterpreterSays) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  for (unsigned seed = 100'000; seed < 100'150; ++seed) {
    LiftTrial t = lift_trial(seed);
    HostTensor got = run_lift(engine, t, seed);
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
