// Sums of products of narrow elements through packed neighbours: random schedules that use them
// give the reference's values, and the model takes them where the target's instructions are fast.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/kernel/forms/dot_products.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "tests/support/narrow_kernels.h"

namespace tile::testing {
namespace {

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
      expect_dots_agree(narrow_product(m, n, k, type, type), small, kTried / 3);
    }
  }
}

TEST(Dots, NanAndInfinities) {
  double inf = std::numeric_limits<double>::infinity();
  expect_dots_agree(narrow_product(5, 18, 9, DType::bf16, DType::bf16),
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
    expect_dots_agree(narrow_product(5, 18, 11, left, right),
                      {-128, 127, 255, 0, 1, -32768, 32767, -1, 128}, kTried);
  }
}

// Four neighbours of one sign: the top bits of one factor flipped, what that adds subtracted.
TEST(Dots, BytesOfOneSign) {
  const std::vector<double> extreme = {-128, 127, 255, 0, 1, -1, 128};
  auto by_four = [](const Schedule& s) { return dot_group(s.stages[0][0]) == 4; };
  for (DType type : {DType::i8, DType::u8}) {
    std::vector<Kernel> kernels;
    for (auto [m, n, k] : {std::array{5, 18, 11}, {6, 33, 8}, {1, 19, 7}, {7, 1, 13}, {4, 5, 1}}) {
      kernels.push_back(narrow_product(m, n, k, type, type));
    }
    for (int64_t channels : {1, 4, 7}) kernels.push_back(inner_convolution(channels, type, type));
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
  Kernel pairs = narrow_product(256, 256, 256, DType::bf16, DType::bf16);
  Kernel bytes = narrow_product(256, 256, 255, DType::u8, DType::i8);
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
    Kernel equal = narrow_product(256, 256, 255, type, type);
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
  Kernel odd = narrow_product(4, 16, 7, DType::bf16, DType::bf16);
  auto rule = [&](const Kernel& kernel, const std::string& reduce) {
    Schedule s =
        parse_schedule("schedule { stage { piece outer (0:1 serial, 1:16 serial) reduce (" +
                       reduce + ") tile (1:1 vector) } }");
    return illegal(s, kernel, target);
  };
  EXPECT_EQ(rule(odd, "2:2 serial, 2:1 dot"), "neighbours that memory does not have");
  EXPECT_EQ(rule(narrow_product(4, 16, 8, DType::bf16, DType::bf16), "2:2 serial, 2:1 dot"), "");
  EXPECT_EQ(rule(odd, "2:4 serial, 2:1 dot"), "a dot of other terms");
  EXPECT_EQ(rule(matrix_product(4, 16, 8), "2:2 serial, 2:1 dot"), "a dot of other terms");
  EXPECT_NE(rule(odd, "2:1 dot"), "");
}

}  // namespace
}  // namespace tile::testing
