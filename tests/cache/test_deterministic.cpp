// A deterministic engine's code depends on nothing that was measured, tuned or run before.
#include <gtest/gtest.h>

#include "core/schedule/space/candidates.h"
#include "runtime/engine/engine.h"
#include "tests/cache/cache_directory.h"
#include "tests/executors/run_backends.h"

namespace tile::test {
namespace {

constexpr const char* kDense =
    "function (X[B, K], W[K, N]) -> (O) { O[b, n: B, N] = +(X[b, k] * W[k, n]); }";

std::vector<InputLayout> layouts(int64_t batch) {
  return {{{DType::f32, {batch, 1024}}, {}}, {{DType::f32, {1024, 500}}, {}}};
}

class Deterministic : public CacheDirectory {
 protected:
  std::shared_ptr<Engine> engine(bool deterministic) {
    EngineOptions options;
    options.backend = "cpu";
    options.cache_dir = directory_ + "/cache";
    options.cache_mode = "rw";
    options.deterministic = deterministic;
    return Engine::create(std::move(options));
  }
};

TEST_F(Deterministic, OrderOfSizesDoesNotMatter) {
  std::shared_ptr<LoadedProgram> one = loaded(engine(true), kDense);
  std::string first = emit(*one->executable(layouts(40)), "nest");
  std::string second = emit(*one->executable(layouts(17)), "nest");
  std::shared_ptr<LoadedProgram> other = loaded(engine(true), kDense);
  EXPECT_EQ(emit(*other->executable(layouts(17)), "nest"), second);
  EXPECT_EQ(emit(*other->executable(layouts(40)), "nest"), first);
}

TEST_F(Deterministic, NothingTunedCounts) {
  std::shared_ptr<Engine> plain = engine(false);
  std::shared_ptr<const Executable> e = loaded(plain, kDense)->executable(layouts(40));
  std::string before = emit(*loaded(engine(true), kDense)->executable(layouts(40)), "schedule");
  // Another schedule than the model's is the best, as if a race had said so.
  const Kernel& kernel = *e->launches.at(0).kernel;
  std::vector<Schedule> choices = candidates(kernel, plain->target(), 4);
  ASSERT_GT(choices.size(), 1U);
  const Schedule& other = choices[0] == e->launches[0].schedule ? choices[1] : choices[0];
  plain->kernels().remember_schedule(kernel, plain->target(), print(other), 1);
  std::shared_ptr<const Executable> tuned_one = loaded(plain, kDense)->executable(layouts(40));
  EXPECT_EQ(tuned_one->launches.at(0).schedule, other);
  EXPECT_EQ(emit(*loaded(engine(true), kDense)->executable(layouts(40)), "schedule"), before);
}

TEST_F(Deterministic, TuningIsRefused) {
  std::shared_ptr<const Executable> e = loaded(engine(true), kDense)->executable(layouts(3));
  EXPECT_THROW(tuned(*e, 1), Failure);
}

TEST_F(Deterministic, RatesAreThoseOfTheProcessor) {
  std::shared_ptr<Engine> made = engine(true);
  const Target &fixed = made->target(), &probed = made->backend().target();
  EXPECT_EQ(fixed.dot_bf16_per_ns, 0);
  EXPECT_EQ(fixed.dot_i8_per_ns, 0);
  EXPECT_EQ(fixed.fma_per_ns, probed.fma_per_ns);
}

}  // namespace
}  // namespace tile::test
