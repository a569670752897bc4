// Sums of products of narrow elements through packed neighbours: random schedules that use them
// give the reference's values, and the model takes them where the target's instructions are fast.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/schedule/dots.h"
#include "tests/unit/schedule_kernels.h"

namespace tile::testing {
namespace {

DType sum_type(DType type) { return is_float(type) ? DType::f32 : DType::i32; }

NodeId widened_product(Body& body, const std::vector<NodeId>& loads) {
  DType type = sum_type(body[loads[0]].type);
  NodeId a = body.cast(loads[0], type), b = body.cast(loads[1], type);
  return body.operation(Op::mul, {a, b}, type);
}

Kernel product(int64_t m, int64_t n, int64_t k, DType left, DType right) {
  KernelBuilder b;
  DType type = sum_type(left);
  TensorId A = b.tensor("A", left, {m, k}), B = b.tensor("B", right, {k, n});
  TensorId C = b.tensor("C", type, {m, n});
  b.stage(C, Aggregation::sum, type,
          {{{"m", "n", "k"},
            {m, n, k},
            2,
            {"m", "n"},
            {{A, {"m", "k"}}, {B, {"k", "n"}}},
            {},
            widened_product}});
  return b.finish();
}

// 3 x 3 taps at stride 2 over a padded picture, its channels innermost.
Kernel padded_convolution(int64_t channels, DType left, DType right) {
  KernelBuilder b;
  DType type = sum_type(left);
  TensorId I = b.tensor("I", left, {1, 7, 7, channels}),
           K = b.tensor("K", right, {3, 3, channels, 5});
  TensorId O = b.tensor("O", type, {1, 4, 4, 5});
  b.stage(O, Aggregation::sum, type,
          {{{"b", "y", "x", "o", "r", "s", "c"},
            {1, 4, 4, 5, 3, 3, channels},
            4,
            {"b", "y", "x", "o"},
            {{I, {"b", "2*y + r - 1", "2*x + s - 1", "c"}}, {K, {"r", "s", "c", "o"}}},
            {{"2*y + r - 1", 0, 7}, {"2*x + s - 1", 0, 7}},
            widened_product}});
  return b.finish();
}

void fill(HostTensor& t, const std::vector<double>& values, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < t.count(); ++i) {
    double value = values[random() % values.size()];
    t.set(i, is_float(t.type) ? real_scalar(value, t.type)
                              : integer_scalar(static_cast<int64_t>(value), t.type));
  }
}

bool has_dot(const Schedule& s) { return dot_group(s.stages[0][0]) > 1; }

// Random schedules that end in a dot, until `wanted` of them have been tried.
void expect_dots_agree(const Kernel& kernel, const std::vector<double>& values, int wanted) {
  Values inputs = small_integers(kernel, 3);
  for (size_t i = 0; i < 2; ++i) fill(inputs[i], values, i + 1);
  expect_chosen_schedules_agree(kernel, inputs, wanted, 2000, has_dot);
}

constexpr int kTried = 60;

TEST(Dots, OddReductionsAndSizesOfOne) {
  const std::vector<double> small = {0, 1, -1, 2, -3, 5};
  for (DType type : {DType::bf16, DType::i8, DType::u8, DType::i16}) {
    for (auto [m, n, k] : {std::array{5, 18, 9}, {6, 17, 10}, {1, 19, 7}, {7, 1, 13}, {4, 5, 1}}) {
      SCOPED_TRACE(std::string(to_string(type)) + " " + std::to_string(k));
      expect_dots_agree(product(m, n, k, type, type), small, kTried / 3);
    }
  }
}

TEST(Dots, NanAndInfinities) {
  double inf = std::numeric_limits<double>::infinity();
  expect_dots_agree(product(5, 18, 9, DType::bf16, DType::bf16),
                    {0, 1, -2, 3, 4, 1, 2, inf, std::nan("")}, kTried);
}

TEST(Dots, ExtremeIntegersWrap) {
  for (auto [left, right] : {std::pair{DType::u8, DType::i8},
                             {DType::i8, DType::u8},
                             {DType::i8, DType::i8},
                             {DType::u8, DType::u8},
                             {DType::i16, DType::i16},
                             {DType::i16, DType::u8}}) {
    SCOPED_TRACE(std::string(to_string(left)) + " " + std::string(to_string(right)));
    expect_dots_agree(product(5, 18, 11, left, right),
                      {-128, 127, 255, 0, 1, -32768, 32767, -1, 128}, kTried);
  }
}

// 3 x 3 taps inside a picture, its channels innermost.
Kernel inner_convolution(int64_t channels, DType type) {
  KernelBuilder b;
  TensorId I = b.tensor("I", type, {2, 6, 7, channels}),
           K = b.tensor("K", type, {3, 3, channels, 5});
  TensorId O = b.tensor("O", DType::i32, {2, 4, 5, 5});
  b.stage(O, Aggregation::sum, DType::i32,
          {{{"b", "y", "x", "o", "r", "s", "c"},
            {2, 4, 5, 5, 3, 3, channels},
            4,
            {"b", "y", "x", "o"},
            {{I, {"b", "y + r", "x + s", "c"}}, {K, {"r", "s", "c", "o"}}},
            {},
            widened_product}});
  return b.finish();
}

// Four neighbours of one sign: the top bits of one factor flipped, what that adds subtracted.
TEST(Dots, BytesOfOneSign) {
  const std::vector<double> extreme = {-128, 127, 255, 0, 1, -1, 128};
  auto by_four = [](const Schedule& s) { return dot_group(s.stages[0][0]) == 4; };
  for (DType type : {DType::i8, DType::u8}) {
    std::vector<Kernel> kernels;
    for (auto [m, n, k] : {std::array{5, 18, 11}, {6, 33, 8}, {1, 19, 7}, {7, 1, 13}, {4, 5, 1}}) {
      kernels.push_back(product(m, n, k, type, type));
    }
    for (int64_t channels : {1, 4, 7}) kernels.push_back(inner_convolution(channels, type));
    for (const Kernel& kernel : kernels) {
      SCOPED_TRACE(std::string(to_string(type)) + "\n" + print(kernel));
      Values inputs = small_integers(kernel, 3);
      for (size_t i = 0; i < 2; ++i) fill(inputs[i], extreme, i + 1);
      expect_chosen_schedules_agree(kernel, inputs, kTried / 2, 4000, by_four);
    }
  }
}

// A tap outside the picture would be left out of one sum and not of the other.
TEST(Dots, PaddedBytesOfOneSignGoByPairs) {
  Kernel padded = padded_convolution(8, DType::i8, DType::i8);
  const Contraction& c = padded.stages[0].contraction;
  EXPECT_FALSE(dot_form(c.pieces[0], c, padded.tensors, 4).has_value());
  EXPECT_TRUE(dot_form(c.pieces[0], c, padded.tensors, 2).has_value());
}

TEST(Dots, PaddedConvolutions) {
  const std::vector<double> small = {0, 1, -1, 2, -3, 5};
  for (int64_t channels : {1, 4, 7}) {
    expect_dots_agree(padded_convolution(channels, DType::bf16, DType::bf16), small, kTried / 5);
    expect_dots_agree(padded_convolution(channels, DType::u8, DType::i8), small, kTried / 5);
    expect_dots_agree(padded_convolution(channels, DType::i8, DType::i8), small, kTried / 5);
  }
}

TEST(Dots, TakenWhereTheInstructionIsFast) {
  Kernel pairs = product(256, 256, 256, DType::bf16, DType::bf16);
  Kernel bytes = product(256, 256, 255, DType::u8, DType::i8);
  Target none = wide_target(), fast = none, slow = none;
  fast.dot_bf16_per_ns = 2 * fast.fma_per_ns;
  fast.dot_i16_per_ns = 2 * fast.fma_per_ns;
  fast.dot_i8_per_ns = 4 * fast.fma_per_ns;
  slow.dot_bf16_per_ns = slow.fma_per_ns / 2;
  EXPECT_FALSE(has_dot(analytic_schedule(pairs, none)));
  EXPECT_FALSE(has_dot(analytic_schedule(pairs, slow)));
  EXPECT_TRUE(has_dot(analytic_schedule(pairs, fast)));
  EXPECT_EQ(dot_group(analytic_schedule(bytes, fast).stages[0][0]), 4);
  for (DType type : {DType::i8, DType::u8}) {
    Kernel equal = product(256, 256, 255, type, type);
    EXPECT_EQ(dot_group(analytic_schedule(equal, fast).stages[0][0]), 4);
    Target pairs_only = fast;
    pairs_only.dot_i8_per_ns = 0;
    EXPECT_EQ(dot_group(analytic_schedule(equal, pairs_only).stages[0][0]), 2);
  }
  Target gpu = h200_target();
  EXPECT_NE(illegal(analytic_schedule(pairs, fast), pairs, gpu), "");
}

TEST(Dots, IllegalWithoutTheirForm) {
  Target target = wide_target();
  Kernel odd = product(4, 16, 7, DType::bf16, DType::bf16);
  auto rule = [&](const Kernel& kernel, const std::string& reduce) {
    Schedule s =
        parse_schedule("schedule { stage { piece outer (0:1 serial, 1:16 serial) reduce (" +
                       reduce + ") tile (1:1 vector) } }");
    return illegal(s, kernel, target);
  };
  EXPECT_EQ(rule(odd, "2:2 serial, 2:1 dot"), "neighbours that memory does not have");
  EXPECT_EQ(rule(product(4, 16, 8, DType::bf16, DType::bf16), "2:2 serial, 2:1 dot"), "");
  EXPECT_EQ(rule(odd, "2:4 serial, 2:1 dot"), "a dot of other terms");
  EXPECT_EQ(rule(matrix_product(4, 16, 8), "2:2 serial, 2:1 dot"), "a dot of other terms");
  EXPECT_NE(rule(odd, "2:1 dot"), "");
}

}  // namespace
}  // namespace tile::testing
