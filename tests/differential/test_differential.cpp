// Random programs: the reference interpreter, the Nest interpreter and the compiled code agree.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/executors/run_backends.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/sweep.h"

namespace tile::test {
namespace {

constexpr uint64_t kPrograms = 2000;
constexpr uint64_t kShards = 8;

void expect_agreement(const std::shared_ptr<Engine>& engine, const RandomCase& drawn,
                      const Laid& laid, bool with_nests) {
  try {
    std::shared_ptr<const Executable> e = compiled(engine, drawn, laid);
    Interpretation expected = interpret(e->bound, laid.inputs, {}, true);
    EXPECT_EQ(difference(expected, run_code(*e, laid.inputs), drawn.exact), "") << "compiled code";
    if (!with_nests) return;
    EXPECT_EQ(difference(expected, run_nests(*e, laid.inputs), drawn.exact), "") << "nests";
  } catch (const Failure& f) {
    ADD_FAILURE() << to_string(f.diagnostic().stage) << ": " << f.what();
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
  }
}

// With dense inputs, then with strided ones.
void expect_agreement(const std::shared_ptr<Engine>& engine, const RandomCase& drawn, uint64_t seed,
                      bool with_nests) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
  expect_agreement(engine, drawn, dense_layouts(drawn.types, drawn.inputs), with_nests);
  Laid strided = random_layouts(seed, drawn.types, drawn.inputs);
  SCOPED_TRACE(described(strided));
  expect_agreement(engine, drawn, strided, with_nests);
}

class Differential : public testing::TestWithParam<uint64_t> {
 protected:
  // This shard's part of the seeds.
  static std::vector<uint64_t> mine(uint64_t first, uint64_t count, uint64_t quick) {
    std::vector<uint64_t> list = sweep(first, count, quick);
    std::erase_if(list, [](uint64_t seed) { return seed % kShards != GetParam(); });
    return list;
  }
};

TEST_P(Differential, SmallProgramsAgree) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  for (uint64_t seed : mine(0, kPrograms, kPrograms / 2)) {
    expect_agreement(engine, random_case(seed), seed, true);
  }
}

TEST_P(Differential, ProgramsOnTheAvx2TargetAgree) {
  std::shared_ptr<Engine> engine = test_engine("cpu", "avx2");
  for (uint64_t seed : mine(3000, 200, 200)) {
    expect_agreement(engine, random_case(seed), seed, false);
  }
}

// NaN and infinities among the inputs.
TEST_P(Differential, RealsAgree) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  RandomOptions options;
  options.real_values = true;
  for (uint64_t seed : mine(0, 400, 200)) {
    expect_agreement(engine, random_case(seed, options), seed, false);
  }
}

INSTANTIATE_TEST_SUITE_P(Shards, Differential, testing::Range<uint64_t>(0, kShards));

// Programs of more than 4,096 points: they agree, and their innermost loops are vectors.
TEST(DifferentialLarge, ProgramsAgreeAndAreVectorised) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  RandomOptions options;
  options.large = true;
  int kernels = 0, scalar = 0;
  for (uint64_t seed : sweep(0, 120, 40)) {
    RandomCase drawn = random_case(seed, options);
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
    std::shared_ptr<const Executable> e = compiled(engine, drawn);
    Interpretation expected = interpret(e->bound, drawn.inputs, {}, true);
    EXPECT_EQ(difference(expected, run_code(*e, drawn.inputs), drawn.exact), "");
    for (const Launch& launch : e->launches) {
      if (launch.sort) continue;
      StoreCount count = count_stores(*launch.nest);
      if (count.all < 4096 / 16) continue;
      ++kernels;
      if (count.scalar * 2 > count.all) {
        ++scalar;
        std::printf("scalar innermost loop, seed %llu: %s\n", static_cast<unsigned long long>(seed),
                    drawn.text.c_str());
      }
    }
  }
  std::printf("%d of %d large kernels fell to a scalar innermost loop\n", scalar, kernels);
  EXPECT_LE(scalar * 50, kernels);
}

}  // namespace
}  // namespace tile::test
