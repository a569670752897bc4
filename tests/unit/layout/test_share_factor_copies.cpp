// A factor of several products is copied once, where all of them together are worth it.
#include "tests/support/after_passes.h"

namespace tile::test {
namespace {

// R[b, k] = sum over n of D[b, n] U[k, n], so many times, each of the one before.
std::string steps(int count) {
  std::string text = "function (D0[B, N], U[N, N]) -> (R) {";
  for (int t = 1; t <= count; ++t) {
    std::string now = std::to_string(t), before = std::to_string(t - 1);
    text += " P" + now + "[b, k: B, N] = +(D" + before + "[b, n] * U[k, n]); D" + now +
            " = 0.001 * P" + now + " - D0;";
  }
  return text + " R = D" + std::to_string(count) + "; }";
}

size_t copies(const BoundProgram& p) {
  size_t count = 0;
  for (const BoundTensor& t : p.tensors) count += t.name.find("_arranged") != std::string::npos;
  return count;
}

BoundProgram after(int count, const Shape& left, const Shape& factor, bool fixed = false) {
  BoundProgram p = bind_text(steps(count), {{DType::f32, left}, {DType::f32, factor}});
  p.tensors.edit(p.inputs[1]).fixed = fixed;
  run_pipeline(p, testing::wide_target(), {});
  return p;
}

TEST(ShareFactorCopies, StepsReadOneCopy) {
  BoundProgram p = after(12, {16, 256}, {256, 256});
  EXPECT_EQ(copies(p), 1U) << print(p);
  TensorId copy;
  for (const BoundStatement& s : p.statements) {
    const auto& c = std::get<Contraction>(s);
    if (c.aggregation != Aggregation::sum) continue;
    TensorId read = c.pieces[0].loads[1].tensor;
    if (!copy.valid()) copy = read;
    EXPECT_EQ(read, copy);
  }
  EXPECT_NE(copy, p.inputs[1]);
}

TEST(ShareFactorCopies, FewStepsSmallOnesAndConstantsStayAsTheyAre) {
  EXPECT_EQ(copies(after(1, {16, 256}, {256, 256})), 0U);
  EXPECT_EQ(copies(after(12, {2, 8}, {8, 8})), 0U);
  EXPECT_EQ(copies(after(12, {16, 256}, {256, 256}, true)), 0U) << "packed once anyway";
}

TEST(ShareFactorCopies, ValuesStay) {
  BoundProgram p = bind_text(steps(12), {{DType::f32, {16, 256}}, {DType::f32, {256, 256}}});
  HostTensor left(DType::f32, {16, 256}), factor(DType::f32, {256, 256});
  for (HostTensor* t : {&left, &factor}) {
    for (int64_t i = 0; i < t->count(); ++i) {
      t->set(i, real_scalar(static_cast<double>(i * 7 % 11 - 5), DType::f32));
    }
  }
  HostTensor want = interpret(p, {left, factor}).outputs[0];
  run_pipeline(p, testing::wide_target(), {});
  ASSERT_EQ(copies(p), 1U);
  HostTensor got = interpret(p, {left, factor}).outputs[0];
  double largest = 1;
  for (int64_t i = 0; i < want.count(); ++i) largest = std::max(largest, std::abs(want.at(i).f));
  for (int64_t i = 0; i < want.count(); ++i) {
    ASSERT_NEAR(got.at(i).f, want.at(i).f, 1e-5 * largest);
  }
}

}  // namespace
}  // namespace tile::test
