// Gradients of random programs: the compiled code agrees with the reference interpreter
// (section 7).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "tests/executors/run_backends.h"
#include "tests/random/agreement/gradient_case.h"
#include "tests/random/sweep.h"

namespace tile::test {
namespace {

constexpr uint64_t kPrograms = 800;
constexpr uint64_t kShards = 8;

void expect_close(const HostTensor& expected, const HostTensor& got, size_t output) {
  ASSERT_EQ(expected.shape, got.shape);
  double largest = 1;
  for (int64_t i = 0; i < expected.count(); ++i) {
    double value = std::abs(convert(expected.at(i), DType::f64).f);
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  for (int64_t i = 0; i < expected.count(); ++i) {
    double x = convert(expected.at(i), DType::f64).f, y = convert(got.at(i), DType::f64).f;
    bool close = std::isnan(x) ? std::isnan(y) : x == y || std::abs(x - y) <= 1e-5 * largest;
    ASSERT_TRUE(close) << "output " << output << ", element " << i << ": expected " << x << ", got "
                       << y;
  }
}

void expect_close(const std::vector<HostTensor>& expected, const std::vector<HostTensor>& got) {
  ASSERT_EQ(expected.size(), got.size());
  for (size_t o = 0; o < got.size(); ++o) expect_close(expected[o], got[o], o);
}

// False where sums overflow.
bool agrees(const std::shared_ptr<Engine>& engine, const RandomCase& drawn, const Laid& laid) {
  SCOPED_TRACE(described(laid));
  std::shared_ptr<const Executable> e = compiled(engine, drawn, laid);
  Interpretation expected = interpret(e->bound, laid.inputs);
  if (overflows(expected.outputs)) return false;
  // The Nest interpreter checks every access, before code could write outside.
  expect_close(expected.outputs, run_nests(*e, laid.inputs));
  expect_close(expected.outputs, run_code(*e, laid.inputs));
  return true;
}

class DifferentialGradients : public testing::TestWithParam<uint64_t> {};

TEST_P(DifferentialGradients, CompiledCodeAgrees) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  int checked = 0;
  for (uint64_t seed : sweep(0, kPrograms, kPrograms / 2)) {
    if (seed % kShards != GetParam()) continue;
    RandomCase drawn;
    if (!gradient_case(seed, drawn)) continue;
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
    try {
      if (!agrees(engine, drawn, dense_layouts(drawn.types, drawn.inputs))) continue;
      agrees(engine, drawn, random_layouts(seed, drawn.types, drawn.inputs));
      ++checked;
    } catch (const Failure& f) {
      ADD_FAILURE() << to_string(f.diagnostic().stage) << ": " << f.what();
    } catch (const InternalError& error) {
      ADD_FAILURE() << error.what();
    }
    if (HasFailure()) return;
  }
  if (std::getenv("TILE_TEST_SEEDS") != nullptr) return;
  EXPECT_GT(checked, 4);
}

INSTANTIATE_TEST_SUITE_P(Shards, DifferentialGradients, testing::Range<uint64_t>(0, kShards));

}  // namespace
}  // namespace tile::test
