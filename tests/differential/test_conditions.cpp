// Conditions, boundary rules and empty cells, in programs of small dimensions and their gradients
// of first and second order: compiled code for every vector width gives what the reference
// interpreter gives.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/autodiff/differentiate.h"
#include "core/language/language.h"
#include "core/language/lift/lift.h"
#include "core/passes/bind/bind.h"
#include "tests/executors/run_backends.h"
#include "tests/random/random_conditions.h"
#include "tests/random/random_lift.h"
#include "tests/random/random_source.h"
#include "tests/random/sweep.h"

namespace tile::test {
namespace {

// Engines for the vector widths that this machine has.
const std::vector<std::shared_ptr<Engine>>& engines() {
  static const auto* all = [] {
    auto* list = new std::vector<std::shared_ptr<Engine>>;
    for (const char* features : {"sse", "avx2", "avx512"}) {
      try {
        list->push_back(test_engine("cpu", features));
      } catch (const Failure&) {  // not on this machine
      }
    }
    return list;
  }();
  return *all;
}

double largest(const HostTensor& t) {
  double most = 1;
  for (int64_t i = 0; i < t.count(); ++i) {
    double value = std::abs(convert(t.at(i), DType::f64).f);
    if (std::isfinite(value)) most = std::max(most, value);
  }
  return most;
}

// Where two tensors first differ; empty: nowhere by more than rounding.
std::string first_difference(const std::vector<HostTensor>& expected,
                             const std::vector<HostTensor>& got) {
  for (size_t o = 0; o < expected.size(); ++o) {
    if (expected[o].shape != got[o].shape) return "output " + std::to_string(o) + ": its shape";
    double most = largest(expected[o]);
    for (int64_t i = 0; i < got[o].count(); ++i) {
      double x = convert(expected[o].at(i), DType::f64).f, y = convert(got[o].at(i), DType::f64).f;
      bool close = std::isnan(x) ? std::isnan(y) : x == y || std::abs(x - y) <= 1e-5 * most;
      if (close) continue;
      return "output " + std::to_string(o) + ", element " + std::to_string(i) + ": expected " +
             std::to_string(x) + ", got " + std::to_string(y);
    }
  }
  return "";
}

// Values that overflow differ by rounding: where a sum is infinite or not is no question here.
bool comparable(const std::vector<HostTensor>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](const HostTensor& t) { return largest(t) < 1e15; });
}

void expect_agreement(const std::shared_ptr<const Program>& program,
                      const std::vector<HostTensor>& inputs) {
  std::vector<InputType> types;
  std::vector<InputLayout> layouts;
  for (const HostTensor& t : inputs) {
    types.push_back({t.type, t.shape, std::nullopt});
    layouts.push_back({types.back(), {}});
  }
  std::vector<HostTensor> expected = interpret(tile::bind(*program, types), inputs).outputs;
  if (!comparable(expected)) return;
  for (const std::shared_ptr<Engine>& engine : engines()) {
    SCOPED_TRACE(engine->target().features);
    std::shared_ptr<Executable> e = compile(engine, program, layouts);
    EXPECT_EQ(first_difference(expected, run_nests(*e, inputs)), "") << "nests";
    if (testing::Test::HasFailure()) return;  // code might write outside
    EXPECT_EQ(first_difference(expected, run_code(*e, inputs)), "") << "compiled code";
  }
}

HostTensor small_values(const Shape& shape, RandomSource& random) {
  HostTensor t(DType::f32, shape);
  for (int64_t i = 0; i < t.count(); ++i) {
    t.set(i, real_scalar(static_cast<double>(random.in(-8, 8)) * 0.25, DType::f32));
  }
  return t;
}

// The program, its gradient with respect to its inputs, and the gradient of the first of those.
void expect_gradients_agree(const Program& forward, std::vector<HostTensor> inputs, uint64_t seed) {
  RandomSource random(seed);
  auto program = std::make_shared<const Program>(forward);
  for (int order = 0; order < 3; ++order) {
    SCOPED_TRACE("order " + std::to_string(order) + "\n" + print(*program));
    expect_agreement(program, inputs);
    if (testing::Test::HasFailure() || order == 2) return;
    // Inputs may be unused, and gradients of them absent.
    std::vector<std::string> wrt;
    size_t count = order == 0 ? program->inputs.size() : 1;
    for (size_t i = 0; i < count; ++i) {
      wrt.push_back(program->tensors[program->inputs[i]].name);
    }
    std::vector<InputType> types;
    for (const HostTensor& t : inputs) types.push_back({t.type, t.shape, std::nullopt});
    BoundProgram bound = tile::bind(*program, types);
    size_t of = order == 0 ? 0 : 1;  // the output, or the first gradient
    const BoundTensor& result = bound.tensors[bound.outputs[of]];
    std::string name = program->tensors[program->outputs[of]].name;
    inputs.push_back(small_values(result.shape, random));
    program = std::make_shared<const Program>(differentiate(*program, name, wrt));
  }
}

template <class Run>
void expect_no_failure(const std::string& text, const Run& run) {
  try {
    run();
  } catch (const Failure& f) {
    ADD_FAILURE() << to_string(f.diagnostic().stage) << ": " << f.what() << "\n" << text;
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << "\n" << text;
  }
}

TEST(Conditions, ViewsOfSmallDimensions) {
  for (uint64_t seed : seeds(0, 40)) {
    LiftTrial t = lift_view_trial(static_cast<unsigned>(seed));
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + t.text);
    expect_no_failure(t.text, [&] {
      Program program = parse_lift(std::make_shared<const Source>(Source{"views.lift", t.text}));
      HostTensor x(DType::f32, Shape(t.dims.begin(), t.dims.end()));
      for (int64_t i = 0; i < x.count(); ++i) {
        x.set(i, real_scalar(t.input[static_cast<size_t>(i)], DType::f32));
      }
      HostTensor got =
          interpret(tile::bind(program, {{x.type, x.shape, std::nullopt}}), {x}).outputs[0];
      ASSERT_EQ(got.shape, Shape(t.expected_dims.begin(), t.expected_dims.end()));
      for (size_t i = 0; i < t.expected.size(); ++i) {
        double want = t.expected[i], have = got.at(static_cast<int64_t>(i)).f;
        ASSERT_NEAR(have, want, 1e-4 * (1 + std::abs(want))) << "element " << i;
      }
      expect_gradients_agree(program, {x}, seed);
    });
    if (HasFailure()) return;
  }
}

void expect_conditions_agree(uint64_t seed, bool special) {
  ConditionCase drawn = random_conditions(seed, special);
  SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + drawn.text);
  expect_no_failure(drawn.text, [&] {
    auto source = std::make_shared<const Source>(Source{"conditions.tile", drawn.text});
    expect_gradients_agree(parse(Language::tile, source), drawn.inputs, seed);
  });
}

TEST(Conditions, EmptyCellsAndTies) {
  for (uint64_t seed : sweep(0, 60, 20)) {
    expect_conditions_agree(seed, false);
    if (HasFailure()) return;
  }
}

TEST(Conditions, SpecialValues) {
  for (uint64_t seed : sweep(1000, 20, 8)) {
    expect_conditions_agree(seed, true);
    if (HasFailure()) return;
  }
}

// Selects, sums and more between a run-time scalar and lanes that are numbers, in all languages: of
// every size up to 23 x 12 when seeds 0 to 275 are asked for.
TEST(Conditions, UniformArms) {
  for (uint64_t seed : seeds(90, 6)) {
    std::string w = std::to_string(1 + seed % 23), h = std::to_string(1 + seed / 23 % 12);
    RandomSource random(seed);
    std::string k = std::to_string(random.in(0, 12));
    auto pick = [&](const std::vector<std::string>& list) { return random.pick(list); };
    std::string condition = pick({"x", "x < " + k, "y < " + k, "x < y", "x + y < " + k});
    std::string other = pick({"1.0", "P + 1.0", "P * P", "y * 0.5"});
    std::string truth = condition == "x" ? "x != 0" : condition;
    std::string in_lift =
        pick({"i", "j"}) + " < " + k + " ? p : " + pick({"1.0f", "p + 1.0f", "p * toFloat(i)"});
    const std::pair<Language, std::string> programs[] = {
        {Language::mfg, "@param_f32 P(SLIDER, min=0.0, max=1.0, init=0.5)\n@bounds(" + w + ", " +
                            h + ")\ndef t |x, y| { ifel(" + condition + ", P, " + other + ") }\n"},
        {Language::tile, "function (P[]) -> (O) { O[y, x: " + h + ", " + w + "] = =(" + truth +
                             " ? P[] : " +
                             (other == "P + 1.0" ? "P[] + 1.0"
                              : other == "P * P" ? "P[] * P[]"
                                                 : other) +
                             "); }"},
        {Language::lift, "val f = fun(Float, p => Generate(j => Generate(i => " + in_lift + ", " +
                             w + "), " + h + "))"}};
    for (const auto& [language, text] : programs) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ":\n" + text);
      expect_no_failure(text, [&, language = language, text = text] {
        HostTensor p(DType::f32, {});
        p.set(0, real_scalar(0.5, DType::f32));
        auto source = std::make_shared<const Source>(Source{"arms", text});
        expect_agreement(std::make_shared<const Program>(parse(language, source)), {p});
      });
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace tile::test
