// Results of f32 are held against the same case in f64, and against how far that moves.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "bench/measure/accuracy.h"

namespace tile::bench {
namespace {

std::shared_ptr<Engine> engine() {
  EngineOptions options;
  options.backend = "reference";
  return Engine::create(options);
}

const std::string kDescent = "function (P, G, Rate[]) -> (Next) {\n  Next = P - Rate * G;\n}\n";

// The step that trains a network of N numbers and as many weights.
Case network(const std::string& text, int64_t n) {
  auto part = std::make_shared<Workload>();
  part->source = std::make_shared<Source>(Source{"descent.tile", kDescent});
  part->ranges["Rate"] = {256, 256};
  auto workload = std::make_shared<Workload>();
  workload->source = std::make_shared<Source>(Source{"network.tile", text});
  workload->data = {"X"};
  workload->loss = "L";
  workload->optimiser = part;
  return {"network", workload, {{"N", {DType::f32, {n}}}, {"X", {DType::f32, {n}}}}};
}

const std::string kMean = "function (X[N], W[N]) -> (L) { T[] = +(X[n] * W[n]); L = T / N; }";
// The largest of the first and the last product.
const std::string kLargest = "function (X[N], W[N]) -> (L) { P = X * W; L[] = >(P[n]); }";

TEST(Accuracy, ACaseInF64HasNoF32) {
  Case c = network(kMean, 3);
  Prepared f32(engine(), c), f64(engine(), in_f64(c));
  for (const Tensor& t : f32.inputs()) EXPECT_EQ(t.type(), DType::f32);
  for (const Tensor& t : f64.inputs()) EXPECT_EQ(t.type(), DType::f64);
  for (const Tensor& t : f64.outputs()) EXPECT_EQ(t.type(), DType::f64);
}

// The gradient's seed has the type of the loss: a third of f32 would be 1e-6 off.
TEST(Accuracy, TheGradientOfAMeanIsOfF64) {
  Prepared f64(engine(), in_f64(network(kMean, 3)));
  f64.run();
  for (int i = 0; i < 3; ++i) {
    double x = f64.inputs()[0].elements<double>()[i], w = f64.inputs()[1].elements<double>()[i];
    EXPECT_NEAR(f64.outputs()[1].elements<double>()[i], w - 256 * x / 3, 1e-13);
  }
}

TEST(Accuracy, F32IsAsFarAsItsRoundings) {
  Prepared f32(engine(), network(kMean, 300));
  f32.run();
  Exact exact(f32);
  double off = exact.off(f32.outputs()).most, moved = exact.moved().most;
  EXPECT_GT(off, 0);
  EXPECT_LT(off, 1e-5);
  EXPECT_GT(moved, std::ldexp(1.0, -27));
  EXPECT_LT(moved, 1e-5);
  EXPECT_EQ(limit_of(f32, moved), 5e-5);
  // What was changed is put back.
  EXPECT_EQ(exact.off(f32.outputs()).most, off);
  EXPECT_EQ(exact.moved().most, moved);
}

// The gradient goes to one of two that are as near as roundings: another change of the inputs gives
// it to the other.
TEST(Accuracy, ChangesOfInputsFindWhatIsNotSmooth) {
  Prepared f32(engine(), network(kLargest, 2));
  for (const Tensor& t : f32.inputs()) {
    for (int i = 0; i < 2 && t.shape().size() == 1; ++i) t.elements<float>()[i] = 0.75F;
  }
  f32.run();
  Exact exact(f32);
  EXPECT_EQ(exact.off(f32.outputs()).most, 0);
  double moved = exact.moved().most;
  EXPECT_NEAR(moved, 1, 1e-6);  // a half each, or all for one
  EXPECT_EQ(limit_of(f32, moved), 0.5);
}

TEST(Accuracy, AWrongResultIsFar) {
  Prepared f32(engine(), network(kMean, 16));
  f32.run();
  Exact exact(f32);
  std::vector<Tensor> wrong = in_f64(f32.outputs());
  for (int i = 0; i < 16; ++i) wrong[1].elements<double>()[i] += 1;
  Prepared::Difference off = exact.off(wrong);
  EXPECT_GT(off.most, limit_of(f32, exact.moved().most));
  EXPECT_NE(off.output.find("W"), std::string::npos) << off.output;
}

// Sixteen values have equal ones and zeros among as many.
TEST(Accuracy, NetworksAreDrawnFromManyValues) {
  Prepared trained(engine(), network(kMean, 512));
  for (size_t i = 0; i < 2; ++i) {
    const auto* values = trained.inputs()[i].elements<float>();
    EXPECT_EQ(std::set<float>(values, values + 512).size(), 512U);
  }
  Case plain = network(kMean, 512);
  auto workload = std::make_shared<Workload>(*plain.workload);
  workload->data.clear();
  workload->optimiser = nullptr;
  plain.workload = workload;
  Prepared few(engine(), plain);
  const auto* values = few.inputs()[0].elements<float>();
  EXPECT_EQ(std::set<float>(values, values + 512).size(), 16U);
}

}  // namespace
}  // namespace tile::bench
