// Gradients of random programs: the compiled code agrees with the reference interpreter
// (section 7).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/language/tile/tile.h"
#include "core/passes/bind.h"
#include "core/passes/differentiate.h"
#include "tests/executors/run_backends.h"

namespace tile::test {
namespace {

constexpr uint64_t kPrograms = 800;
constexpr uint64_t kShards = 8;

HostTensor as_floats(const HostTensor& from) {
  HostTensor t(DType::f32, from.shape);
  for (int64_t i = 0; i < t.count(); ++i) t.set(i, convert(from.at(i), DType::f32));
  return t;
}

std::vector<InputType> types_of(const std::vector<HostTensor>& inputs) {
  std::vector<InputType> types;
  for (const HostTensor& t : inputs) types.push_back({t.type, t.shape});
  return types;
}

// The gradient of a random program's last output with respect to all its f32 inputs; false if the
// program has no exact f32 result. Values are small integers, so that what is tied is tied on every
// backend.
bool gradient_case(uint64_t seed, RandomCase& result) {
  RandomCase drawn = random_case(seed);
  if (!drawn.exact) return false;
  Program program = parse_tile(std::make_shared<const Source>(Source{"random", drawn.text}));
  std::vector<bool> keeps = index_inputs(program);
  std::vector<std::string> wrt;
  for (size_t i = 0; i < keeps.size(); ++i) {
    result.inputs.push_back(keeps[i] ? drawn.inputs[i] : as_floats(drawn.inputs[i]));
    if (keeps[i]) continue;
    wrt.push_back(program.tensors[static_cast<size_t>(program.inputs[i])].name);
  }
  try {
    BoundProgram bound = tile::bind(program, types_of(result.inputs));
    HostTensor output = interpret(bound, result.inputs).outputs.back();
    if (output.type != DType::f32 || wrt.empty()) return false;
    for (int64_t i = 0; i < output.count(); ++i) {
      output.set(i, integer_scalar((i * 5 + 1) % 4 - 1, DType::f32));
    }
    result.inputs.push_back(std::move(output));
  } catch (const Failure&) {
    return false;  // an operation on integers only
  }
  std::string of = program.tensors[static_cast<size_t>(program.outputs.back())].name;
  result.text = print(differentiate(program, of, wrt));
  result.types = types_of(result.inputs);
  return true;
}

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

// Sums that overflow depend on the order of their terms.
bool overflows(const std::vector<HostTensor>& outputs) {
  return std::any_of(outputs.begin(), outputs.end(), [](const HostTensor& t) {
    for (int64_t i = 0; i < t.count(); ++i) {
      if (!std::isfinite(convert(t.at(i), DType::f64).f)) return true;
    }
    return false;
  });
}

class DifferentialGradients : public testing::TestWithParam<uint64_t> {};

TEST_P(DifferentialGradients, CompiledCodeAgrees) {
  std::shared_ptr<Engine> engine = test_engine("cpu");
  int checked = 0;
  for (uint64_t seed : seeds(0, kPrograms)) {
    if (seed % kShards != GetParam()) continue;
    RandomCase drawn;
    if (!gradient_case(seed, drawn)) continue;
    SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
    try {
      std::shared_ptr<Executable> e = compiled(engine, drawn);
      Interpretation expected = interpret(e->bound, drawn.inputs);
      if (overflows(expected.outputs)) continue;
      // The Nest interpreter checks every access, before code could write outside.
      expect_close(expected.outputs, run_nests(*e, drawn.inputs));
      expect_close(expected.outputs, run_code(*e, drawn.inputs));
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
