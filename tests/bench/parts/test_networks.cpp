// The networks of bench/workloads/networks at small sizes, forward and as steps of training, are
// what the reference interpreter computes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "bench/measure/prepared.h"
#include "bench/measure/training.h"
#include "core/ir/scalar.h"

namespace tile::bench {
namespace {

// Networks of many statements take seconds each: they are tested where the environment asks for
// them.
constexpr size_t kFewStatements = 80;

std::vector<Case> networks() {
  std::vector<Case> list;
  for (const Case& c : read_cases(std::string(TILE_SOURCE_DIR) + "/bench/workloads/networks")) {
    bool seen =
        !list.empty() && (list.back().workload == c.workload ||
                          (list.size() > 1 && list[list.size() - 2].workload == c.workload));
    if (c.workload->small.empty() || seen) continue;
    Program program = parse(c.workload->language, c.workload->source);
    bool many = program.statements.size() > kFewStatements;
    if (many && std::getenv("TILE_TEST_ALL_NETWORKS") == nullptr) continue;
    list.push_back(c);
    list.back().shapes = c.workload->small;
  }
  return list;
}

std::shared_ptr<Engine> engine(const std::string& backend) {
  EngineOptions options;
  options.backend = backend;
  return Engine::create(options);
}

bool all_finite(const Tensor& t) {
  for (size_t i = 0; i < t.bytes(); i += byte_size(t.type())) {
    if (!std::isfinite(load_element(t.elements<std::byte>() + i, t.type()).f)) return false;
  }
  return true;
}

class Networks : public testing::TestWithParam<Case> {};

TEST_P(Networks, AreWhatTheReferenceComputes) {
  const Case& c = GetParam();
  Prepared own(engine("cpu"), c), reference(engine("reference"), c);
  own.run();
  reference.run();
  Prepared::Difference off = own.differences(own.outputs(), reference.outputs());
  EXPECT_LE(off.most, c.workload->tolerance) << off.output;
  for (const Tensor& t : reference.outputs()) EXPECT_TRUE(all_finite(t));
}

// Every weight that a step of training leaves behind is another one than before, and the
// optimiser's inputs are drawn as it says.
TEST_P(Networks, TrainEveryWeight) {
  const Case& c = GetParam();
  if (!c.workload->optimiser) return;
  TrainingStep step = training_step(*c.workload);
  EXPECT_EQ(step.program.outputs.size(), 1 + step.weights.size() * (1 + step.states.size()));
  Prepared reference(engine("reference"), c);
  reference.run();
  std::vector<std::string> names = input_names(step.program, c);
  for (size_t i = 1; i < step.replaced.size(); ++i) {
    auto at = std::find(names.begin(), names.end(), step.replaced[i]);
    ASSERT_NE(at, names.end()) << step.replaced[i];
    const Tensor& before = reference.inputs()[static_cast<size_t>(at - names.begin())];
    EXPECT_GT(difference(reference.outputs()[i], before), 0) << step.replaced[i];
  }
}

INSTANTIATE_TEST_SUITE_P(All, Networks, testing::ValuesIn(networks()),
                         [](const auto& tested) { return tested.param.name; });

std::string text(const std::string& header) {
  return header +
         "function (X[N, K], W[K]) -> (Y, L) { Y[n: N] = +(X[n, k] * W[k]); L[] = +(Y[n]); }";
}

Workload with_optimiser(const std::string& optimiser) {
  auto part = std::make_shared<Workload>();
  part->source = std::make_shared<Source>(Source{"optimiser.tile", optimiser});
  Workload workload;
  workload.source = std::make_shared<Source>(Source{"network.tile", text("")});
  workload.data = {"X"};
  workload.loss = "L";
  workload.optimiser = part;
  return workload;
}

TEST(TrainingSteps, AreTheGradientAndTheOptimisersStatements) {
  Workload workload = with_optimiser(
      "function (P, G, State, Rate[]) -> (Q, T) { T = State + G; Q = P - Rate * T; }");
  TrainingStep step = training_step(workload);
  EXPECT_EQ(step.loss, 1U);
  EXPECT_EQ(step.weights, std::vector<std::string>{"W"});
  EXPECT_EQ(step.states, std::vector<std::string>{"State"});
  EXPECT_EQ(step.shared, std::vector<std::string>{"Rate"});
  EXPECT_EQ(step.replaced, (std::vector<std::string>{"", "W", "W_State"}));
  std::string printed = print(step.program);
  EXPECT_NE(printed.find("function (X[N, K], W[K], W_State[K], Rate[]) -> (L, W_Q, W_T)"),
            std::string::npos)
      << printed;
  EXPECT_NE(printed.find("W_T = W_State + DW;"), std::string::npos) << printed;
}

TEST(TrainingSteps, AnOptimiserHasAResultForEachState) {
  Workload workload = with_optimiser("function (P, G, State) -> (Q) { Q = P - State * G; }");
  EXPECT_THROW(training_step(workload), Failure);
}

TEST(TrainingSteps, WeightsAreDrawnAsSmallAsTheirTermsAsk) {
  Workload workload = with_optimiser("function (P, G, M) -> (Q, N) { N = M + G; Q = P - N; }");
  auto& optimiser = const_cast<Workload&>(*workload.optimiser);
  optimiser.ranges["M"] = {2, 3};
  Draw draw(workload);
  EXPECT_EQ(draw.range("X", {64, 64}).high, 1);
  EXPECT_EQ(draw.range("W", {3, 3, 7, 64}).high, 0.125);
  EXPECT_EQ(draw.range("W", {64}).low, -1);
  EXPECT_EQ(draw.range("W_M", {64, 64}).low, 2);
}

TEST(Tensors, TheChangeOfAWeightIsComparedAndNotItsSize) {
  Tensor before({DType::f32, {2}}), got({DType::f32, {2}}), expected({DType::f32, {2}});
  before.elements<float>()[0] = 4;
  got.elements<float>()[0] = 4.25F;
  expected.elements<float>()[0] = 4.5F;
  EXPECT_LT(difference(got, expected), 0.06);
  EXPECT_EQ(difference_of_change(got, expected, before), 0.5);
}

}  // namespace
}  // namespace tile::bench
