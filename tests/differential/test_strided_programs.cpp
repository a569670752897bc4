// Random programs of every kind with strided inputs, by vectors of every width and several numbers
// of threads, in guarded memory: compiled code against the reference interpreter.
// TILE_TEST_SEEDS=FIRST:COUNT draws others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/language/lift/lift.h"
#include "core/language/mfg/mfg.h"
#include "tests/executors/run_backends.h"
#include "tests/random/agreement/agreement.h"
#include "tests/random/agreement/gradient_case.h"
#include "tests/random/random_filter.h"
#include "tests/random/random_lift.h"
#include "tests/random/sweep.h"

namespace tile::test {
namespace {

constexpr uint64_t kPrograms = 48, kQuick = 20;  // of each kind

// One of the engines in turns.
std::shared_ptr<Engine> engine_of(uint64_t seed) {
  static const std::vector<std::shared_ptr<Engine>> all = {
      test_engine("cpu", "", 1), test_engine("cpu", "avx2", 2), test_engine("cpu", "sse", 3),
      test_engine("cpu", "", 7), test_engine("cpu", "avx2", 7), test_engine("cpu", "sse", 1)};
  return all[seed / 2 % all.size()];
}

// Values of one tensor, compared with its largest.
bool close(const HostTensor& a, const HostTensor& b) {
  double largest = 1;
  auto value = [](const HostTensor& t, int64_t i) { return convert(t.at(i), DType::f64).f; };
  for (int64_t i = 0; i < a.count(); ++i) {
    if (std::isfinite(value(a, i))) largest = std::max(largest, std::abs(value(a, i)));
  }
  for (int64_t i = 0; i < a.count(); ++i) {
    double x = value(a, i), y = value(b, i);
    bool same = std::isnan(x) ? std::isnan(y) : x == y || std::abs(x - y) <= 1e-4 * largest;
    if (!same) return false;
  }
  return a.shape == b.shape;
}

struct Drawn {
  std::string text;
  std::shared_ptr<const Program> program;
  std::vector<InputType> types;
  std::vector<HostTensor> inputs;
  bool exact = false, close = false;  // otherwise by magnitudes
  bool finite = false;  // products and sums that overflow depend on the order of their terms
};

void expect_agreement(const Drawn& drawn, uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
  Laid laid = random_layouts(seed, drawn.types, drawn.inputs);
  SCOPED_TRACE(described(laid));
  std::shared_ptr<Engine> engine = engine_of(seed);
  SCOPED_TRACE(engine->device());
  try {
    std::shared_ptr<Executable> e = compile(engine, drawn.program, laid.layouts);
    Interpretation expected = interpret(e->bound, laid.inputs, {}, !drawn.close);
    if (drawn.finite && overflows(expected.outputs)) return;
    std::vector<HostTensor> got = run_code(*e, laid.inputs);
    if (!drawn.close) {
      EXPECT_EQ(difference(expected, got, drawn.exact), "");
      return;
    }
    for (size_t o = 0; o < got.size(); ++o) {
      EXPECT_TRUE(close(expected.outputs[o], got[o])) << "output " << o;
    }
  } catch (const Failure& f) {
    ADD_FAILURE() << to_string(f.diagnostic().stage) << ": " << f.what();
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
  }
}

std::shared_ptr<const Program> parsed(Language language, const std::string& text) {
  return std::make_shared<const Program>(
      parse(language, std::make_shared<const Source>(Source{"random", text})));
}
Drawn of(const RandomCase& c) {
  return {c.text, parsed(Language::tile, c.text), c.types, c.inputs, c.exact, false, !c.exact};
}

TEST(StridedPrograms, Tile) {
  for (uint64_t seed : sweep(10'000, kPrograms, kQuick)) {
    RandomOptions options;
    options.large = seed % 4 == 0;
    options.real_values = seed % 4 == 1;
    Drawn drawn = of(random_case(seed, options));
    drawn.finite = !drawn.exact && !options.real_values;
    expect_agreement(drawn, seed);
  }
}

TEST(StridedPrograms, Gradients) {
  for (uint64_t seed : sweep(10'000, kPrograms, kQuick)) {
    RandomCase c;
    if (!gradient_case(seed, c)) continue;
    Drawn drawn = of(c);
    drawn.close = drawn.finite = true;
    expect_agreement(drawn, seed);
  }
}

TEST(StridedPrograms, Filters) {
  for (uint64_t seed : sweep(10'000, kPrograms, kQuick)) {
    Drawn drawn;
    drawn.text = random_filter(seed);
    drawn.program = parsed(Language::mfg, drawn.text);
    drawn.close = drawn.finite = true;
    RandomSource random(seed);
    Shape picture{random.in(1, 40), random.in(1, 70)};
    drawn.inputs = filter_inputs(seed, *drawn.program, picture, false);
    for (size_t i = 0; i < drawn.inputs.size(); ++i) {
      const HostTensor& x = drawn.inputs[i];
      const Tensor& t = drawn.program->tensors[drawn.program->inputs[i]];
      drawn.types.push_back({x.type, x.shape, std::nullopt});
      if (t.parameter && is_integer(x.type)) drawn.types.back().value = x.at(0).i;
    }
    expect_agreement(drawn, seed);
  }
}

TEST(StridedPrograms, Patterns) {
  for (uint64_t seed : sweep(10'000, kPrograms, kQuick)) {
    LiftTrial t = lift_trial(static_cast<unsigned>(seed));
    HostTensor x(DType::f32, Shape(t.dims.begin(), t.dims.end()));
    for (size_t i = 0; i < t.input.size(); ++i) {
      x.set(static_cast<int64_t>(i), real_scalar(t.input[i], DType::f32));
    }
    Drawn drawn;
    drawn.text = t.text;
    drawn.program = parsed(Language::lift, t.text);
    drawn.types = {{x.type, x.shape, std::nullopt}};
    drawn.inputs = {x};
    expect_agreement(drawn, seed);
  }
}

}  // namespace
}  // namespace tile::test
