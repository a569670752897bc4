// Every optional pass may be left out: programs compute the same without it, by the nests that it
// leaves and by compiled code.
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "core/passes/bind/bind.h"
#include "runtime/engine/inspect/pass_list.h"
#include "tests/executors/run_backends.h"
#include "tests/random/agreement/agreement.h"

namespace tile::test {
namespace {

std::shared_ptr<Engine> engine_without(std::vector<std::string> passes,
                                       const std::string& features = "") {
  EngineOptions options;
  options.backend = "cpu";
  options.features = features;
  options.cache_mode = "off";
  options.strict_skip = true;
  options.skip_passes = std::move(passes);
  return Engine::create(std::move(options));
}

std::vector<std::string> optional_names() {
  std::vector<std::string> names;
  for (const PassInfo& pass : all_passes()) {
    if (pass.optional) names.emplace_back(pass.name);
  }
  return names;
}

// What each fusion, layout change and nest pass is for.
struct Example {
  const char* text;
  std::vector<Shape> shapes;
};
const std::vector<Example>& examples() {
  static const std::vector<Example> kAll = {
      // An epilogue, columns that a vector does not divide, packed operands.
      {"function (A[M, L], B[L, N], C) -> (O) {\n  P[i, j: M, N] = +(A[i, k] * B[k, j]);\n"
       "  O = relu(P + C);\n}\n",
       {{33, 40}, {40, 131}, {131}}},
      // Softmax: statements that share rows.
      {"function (X[M, N]) -> (O) {\n  T[m, 0: M, 1] = >(X[m, n]);\n  E = exp(X - T);\n"
       "  S[m, 0: M, 1] = +(E[m, n]);\n  O = E / S;\n}\n",
       {{70, 37}}},
      // Attention: a streamed axis.
      {"function (Q[S, D], K[T, D], V[T, D]) -> (O) {\n  L[s, t: S, T] = +(Q[s, d] * K[t, d]);\n"
       "  Top[s, 0: S, 1] = >(L[s, t]);\n  E = exp(L - Top);\n  Sum[s, 0: S, 1] = +(E[s, t]);\n"
       "  P = E / Sum;\n  O[s, d: S, D] = +(P[s, t] * V[t, d]);\n}\n",
       {{40, 16}, {150, 16}, {150, 16}}},
      // Two reductions of one tensor.
      {"function (X[M, N]) -> (R) {\n  S[n: N] = +(X[m, n]);\n  Q[n: N] = +(X[m, n] * X[m, n]);\n"
       "  R = S + Q;\n}\n",
       {{300, 20}}},
      // A convolution with borders behind which a pool stands.
      {"function (I[H, W, C], K[J, L, C, D]) -> (P) {\n"
       "  O[y, x, d: H, W, D] = +(I[y + j - 1, x + i - 1, c] * K[j, i, c, d]);\n"
       "  R = relu(O);\n"
       "  P[y, x, d: H / 2, W / 2, D] = >(R[2 * y + j, 2 * x + i, d]), j < 2, i < 2;\n}\n",
       {{14, 18, 8}, {3, 3, 8, 24}}},
      // Dimensions in an order that no product likes, and a long reduction to one cell.
      {"function (A[P, Q, R, S], B[Q, T, S, U]) -> (O, N) {\n"
       "  O[p, t, r, u: P, T, R, U] = +(A[p, q, r, s] * B[q, t, s, u]);\n  N[] = +(A[i, j, k, "
       "l]);\n}\n",
       {{6, 12, 9, 10}, {12, 7, 10, 11}}},
  };
  return kAll;
}

void expect_agreement(const std::shared_ptr<Engine>& engine, const RandomCase& drawn) {
  SCOPED_TRACE(drawn.text);
  try {
    std::shared_ptr<const Executable> e = compiled(engine, drawn);
    Interpretation expected = interpret(e->bound, drawn.inputs, {}, true);
    EXPECT_EQ(difference(expected, run_code(*e, drawn.inputs), drawn.exact), "") << "compiled code";
    EXPECT_EQ(difference(expected, run_nests(*e, drawn.inputs), drawn.exact), "") << "nests";
  } catch (const Failure& f) {
    ADD_FAILURE() << to_string(f.diagnostic().stage) << ": " << f.what();
  } catch (const InternalError& error) {
    ADD_FAILURE() << error.what();
  }
}

RandomCase case_of(const Example& example) {
  RandomCase drawn;
  drawn.text = example.text;
  drawn.exact = false;
  for (const Shape& shape : example.shapes) {
    drawn.types.push_back({DType::f32, shape});
    drawn.inputs.push_back(integers(shape, static_cast<int64_t>(drawn.inputs.size())));
  }
  return drawn;
}

void expect_examples(const std::shared_ptr<Engine>& engine) {
  for (const Example& example : examples()) expect_agreement(engine, case_of(example));
}

// Which passes left the text as it was, wherever they were run.
class Unchanged final : public PassObserver {
 public:
  void ends(const PassInfo& pass, const PassText& text) override {
    std::string now = text ? text() : "";
    bool changed = now.empty() || now != last_;
    last_ = std::move(now);
    bool& idle = idle_.try_emplace(std::string(pass.name), true).first->second;
    idle = idle && !changed;
  }
  // Without them everything is as with them.
  bool has(const std::string& name) const {
    auto found = idle_.find(name);
    return found != idle_.end() && found->second;
  }

 private:
  std::string last_;
  std::map<std::string, bool> idle_;
};

// An example and the vectors of its code.
class SkippedExample : public testing::TestWithParam<std::tuple<size_t, const char*>> {};

// Without each pass that does something to it.
TEST_P(SkippedExample, Agrees) {
  auto [number, features] = GetParam();
  RandomCase drawn = case_of(examples().at(number));
  std::shared_ptr<Engine> whole = engine_without({}, features);
  expect_agreement(whole, drawn);
  Unchanged unchanged;
  compile_stages(*compiled(whole, drawn), &unchanged);
  size_t tried = 0;
  for (const std::string& name : optional_names()) {
    if (unchanged.has(name)) continue;
    SCOPED_TRACE("without " + name);
    expect_agreement(engine_without({name}, features), drawn);
    ++tried;
  }
  EXPECT_GE(tried, 1U);
}
INSTANTIATE_TEST_SUITE_P(Each, SkippedExample,
                         testing::Combine(testing::Range<size_t>(0, examples().size()),
                                          testing::Values("", "avx2")),
                         [](const auto& tested) {
                           std::string features = std::get<1>(tested.param);
                           return std::to_string(std::get<0>(tested.param)) +
                                  (features.empty() ? "" : "_" + features);
                         });

class SkippedPass : public testing::TestWithParam<std::string> {};

// Other programs for each pass.
TEST_P(SkippedPass, RandomProgramsAgree) {
  std::shared_ptr<Engine> engine = engine_without({GetParam()});
  for (uint64_t seed : seeds(20'000 + std::hash<std::string>()(GetParam()) % 10'000, 24)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_agreement(engine, random_case(seed));
  }
}

std::string name_of(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Each, SkippedPass, testing::ValuesIn(optional_names()), name_of);

TEST(SkippedPasses, AllAtOnce) {
  std::shared_ptr<Engine> engine = engine_without(optional_names());
  expect_examples(engine);
  for (uint64_t seed : seeds(31'000, 60)) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    expect_agreement(engine, random_case(seed));
  }
}

// What is left out is not run, and what is not left out is.
TEST(SkippedPasses, AreNotRun) {
  struct Names final : PassObserver {
    void ends(const PassInfo& pass, const PassText&) override { all.emplace_back(pass.name); }
    std::vector<std::string> all;
  };
  auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  RandomCase drawn = random_case(1);
  Names with, without;
  compile_stages(*compiled(engine_without({}), drawn), &with);
  compile_stages(*compiled(engine_without({"partition", "fuse-rows"}), drawn), &without);
  for (const char* name : {"partition", "fuse-rows"}) {
    EXPECT_TRUE(has(with.all, name)) << name;
    EXPECT_FALSE(has(without.all, name)) << name;
  }
  EXPECT_TRUE(has(without.all, "hoist"));
  EXPECT_TRUE(has(without.all, "reduce"));
}

}  // namespace
}  // namespace tile::test
