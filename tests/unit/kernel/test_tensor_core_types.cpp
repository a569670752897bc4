// Products of bytes and of f64 on tensor cores: which kernels they take, and their nests run by the
// interpreter against brute force.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/kernel/argument_layout.h"
#include "core/kernel/forms/tensor_core_gemm.h"
#include "core/nest/passes/nest_passes.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "core/schedule/space/tensor_core_gemm_space.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

using Names = std::vector<std::string>;
using Tensor = std::tuple<DType, Shape, Names>;

// The sum of the products of both loads, converted to `factor` and multiplied in `sum`.
Kernel product_kernel(Names iterators, std::vector<int64_t> box, size_t parallel_dims,
                      const Tensor& a, const Tensor& b, const Tensor& c, DType sum,
                      DType factor = DType::none,
                      std::vector<std::tuple<std::string, int64_t, int64_t>> constraints = {}) {
  KernelBuilder k;
  TensorId A = k.tensor("A", std::get<0>(a), std::get<1>(a));
  TensorId B = k.tensor("B", std::get<0>(b), std::get<1>(b));
  TensorId C = k.tensor("C", std::get<0>(c), std::get<1>(c));
  auto product = [&](Body& body, const std::vector<NodeId>& l) {
    auto widened = [&](NodeId id) {
      return body.cast(factor == DType::none ? id : body.cast(id, factor), sum);
    };
    return body.operation(Op::mul, {widened(l[0]), widened(l[1])}, sum);
  };
  k.stage(C, Aggregation::sum, sum,
          {{std::move(iterators),
            std::move(box),
            parallel_dims,
            std::get<2>(c),
            {{A, std::get<2>(a)}, {B, std::get<2>(b)}},
            std::move(constraints),
            product}});
  return k.finish();
}

struct Factors {
  DType a, b, sum;
};
Kernel matrices(int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed,
                const Factors& f, DType stored = DType::none) {
  Tensor a{f.a, {m, k}, {"i", "k"}}, b{f.b, {k, n}, {"k", "j"}};
  if (a_transposed) a = {f.a, {k, m}, {"k", "i"}};
  if (b_transposed) b = {f.b, {n, k}, {"j", "k"}};
  DType c = stored == DType::none ? f.sum : stored;
  return product_kernel({"i", "j", "k"}, {m, n, k}, 2, a, b, {c, {m, n}, {"i", "j"}}, f.sum);
}

// Every value of a byte, or reals whose sums are exact.
Values all_values(const Kernel& kernel, uint64_t seed) {
  Values values = small_integers(kernel, seed);
  std::mt19937_64 random(seed);
  for (HostTensor& t : values) {
    if (byte_size(t.type) > 1) continue;
    for (int64_t i = 0; i < t.count(); ++i) {
      t.set(i, integer_scalar(static_cast<int64_t>(random() % 256), t.type));
    }
  }
  return values;
}

void expect_tiles_agree(const Kernel& kernel, const Target& target, size_t count = 1) {
  Values inputs = all_values(kernel, 5);
  Values expected = inputs;
  brute_force(kernel, expected);
  std::vector<Schedule> all = tensor_cores::schedules(kernel, target, count);
  ASSERT_FALSE(all.empty()) << print(kernel);
  for (const Schedule& schedule : all) {
    ASSERT_EQ(illegal(schedule, kernel, target), "");
    nest::Nest nest = lower(kernel, schedule, target);
    nest::verify(nest);
    std::string text = nest::print(nest);
    EXPECT_NE(text.find("matrix sum"), std::string::npos);
    nest::Nest again = nest::parse_nest(std::make_shared<Source>(Source{"<nest>", text}));
    EXPECT_EQ(nest::print(again), text);
    ASSERT_EQ(difference(kernel, expected, run_nest(again, kernel, inputs)), "") << text;
    nest::Nest parts = nest::run_passes(nest, target);
    nest::verify(parts);
    ASSERT_EQ(difference(kernel, expected, run_nest(parts, kernel, inputs)), "");
  }
}

constexpr Factors kBytes[] = {{DType::i8, DType::i8, DType::i32},
                              {DType::u8, DType::u8, DType::i32},
                              {DType::i8, DType::u8, DType::i32},
                              {DType::u8, DType::i8, DType::u32}};

TEST(TensorCoreTypes, BytesOfEverySignAndLayout) {
  for (const Target& target : {h200_target(), a100_target()}) {
    int layout = 0;
    for (const Factors& f : kBytes) {
      expect_tiles_agree(matrices(40, 24, 144, layout % 2 != 0, layout / 2 % 2 != 0, f), target);
      expect_tiles_agree(matrices(33, 27, 45, false, true, f), target);
      ++layout;
    }
  }
}

TEST(TensorCoreTypes, DoublesOfEveryLayout) {
  Factors f{DType::f64, DType::f64, DType::f64};
  for (const Target& target : {h200_target(), a100_target()}) {
    for (int layout = 0; layout < 4; ++layout) {
      expect_tiles_agree(matrices(40, 67, 21, layout % 2 != 0, layout / 2 != 0, f), target, 2);
    }
  }
}

// Rule 4.8: results of narrow integers are summed in 32 bits and converted once.
TEST(TensorCoreTypes, NarrowResultsOfBytes) {
  Factors f{DType::i8, DType::i8, DType::i32};
  expect_tiles_agree(matrices(70, 24, 144, false, true, f, DType::i8), h200_target(), 2);
  expect_tiles_agree(matrices(40, 24, 144, false, true, f, DType::i16), a100_target());
}

// A skipped point of integers meets no infinity: the strictest program may have a zero there.
TEST(TensorCoreTypes, ConvolutionsOfBytesByBoxesRule4_12) {
  for (int64_t stride : {1, 2}) {
    int64_t size = 5, out = (size + 2 - 3) / stride + 1;
    std::string s = std::to_string(stride);
    std::string row = s + "*y + r - 1", column = s + "*x + q - 1";
    auto convolution = [&](DType picture, DType sum) {
      DType filter = picture == DType::u8 ? DType::i8 : picture;
      return product_kernel({"b", "y", "x", "o", "r", "q", "c"}, {2, out, out, 64, 3, 3, 32}, 4,
                            {picture, {2, size, size, 32}, {"b", row, column, "c"}},
                            {filter, {3, 3, 64, 32}, {"r", "q", "o", "c"}},
                            {sum, {2, out, out, 64}, {"b", "y", "x", "o"}}, sum, DType::none,
                            {{row, 0, size}, {column, 0, size}});
    };
    expect_tiles_agree(convolution(DType::u8, DType::i32), h200_target());
    expect_tiles_agree(convolution(DType::u8, DType::i32), a100_target());
    EXPECT_TRUE(
        tensor_cores::schedules(convolution(DType::f64, DType::f64), h200_target(), 1).empty());
  }
}

void expect_shared_steps_agree(const Kernel& kernel, const Target& target) {
  Values inputs = all_values(kernel, 5);
  Values expected = inputs;
  brute_force(kernel, expected);
  int ways = 0;
  for (auto [split, cluster, stream] :
       {std::tuple<int64_t, int64_t, int64_t>{2, 1, 1}, {1, 2, 1}, {3, 1, 1}, {1, 1, 5}}) {
    Schedule schedule = tensor_cores::schedules(kernel, target, 1).at(0);
    TensorCoreGemm& t = *schedule.stages[0][0].form<TensorCoreGemm>();
    t.split = split;
    t.cluster = cluster;
    t.stream_k = stream;
    if (!illegal(schedule, kernel, target).empty()) continue;
    ++ways;
    nest::Nest nest = nest::run_passes(lower(kernel, schedule, target), target);
    nest::verify(nest);
    ASSERT_EQ(difference(kernel, expected, run_nest(nest, kernel, inputs)), "");
  }
  EXPECT_GE(ways, 2);
}

TEST(TensorCoreTypes, PartsOfSumsHaveTheirType) {
  expect_shared_steps_agree(matrices(40, 24, 656, false, true, kBytes[0]), h200_target());
  expect_shared_steps_agree(matrices(40, 24, 656, false, true, kBytes[3]), h200_target());
  expect_shared_steps_agree(matrices(40, 24, 328, false, false, kBytes[1]), a100_target());
  expect_shared_steps_agree(
      matrices(40, 24, 136, false, false, {DType::f64, DType::f64, DType::f64}), h200_target());
}

std::optional<tensor_cores::Product> product_of(const Kernel& kernel, const Target& target) {
  const Contraction& c = kernel.stages[0].contraction;
  return tensor_cores::product_of(c.pieces[0], c, kernel, target, argument_layouts(kernel));
}

TEST(TensorCoreTypes, BulkCopiesOfBytesWantNeighboursInK) {
  for (const Factors& f : kBytes) {
    for (int layout = 0; layout < 4; ++layout) {
      bool a = layout % 2 != 0, b = layout / 2 != 0;
      std::optional<tensor_cores::Product> p =
          product_of(matrices(64, 64, 128, a, b, f), h200_target());
      ASSERT_TRUE(p);
      EXPECT_EQ(p->bulk, !a && b);
      EXPECT_EQ(p->depth, p->bulk ? 128 : 64);
      EXPECT_EQ(p->sum, f.sum);
    }
  }
}

// A conversion is a part of the form where the sum's 32 bits stay the same.
TEST(TensorCoreTypes, ConversionsThatKeepTheSum) {
  auto taken = [](DType a, DType b, DType sum, DType factor) {
    Kernel k = product_kernel({"i", "j", "k"}, {64, 64, 64}, 2, {a, {64, 64}, {"i", "k"}},
                              {b, {64, 64}, {"k", "j"}}, {sum, {64, 64}, {"i", "j"}}, sum, factor);
    return product_of(k, h200_target()).has_value();
  };
  EXPECT_TRUE(taken(DType::i8, DType::i8, DType::i32, DType::i16));
  EXPECT_TRUE(taken(DType::u8, DType::u8, DType::i32, DType::i16));
  EXPECT_TRUE(taken(DType::u8, DType::u8, DType::u32, DType::u16));
  EXPECT_TRUE(taken(DType::i8, DType::i8, DType::i32, DType::u32));
  EXPECT_TRUE(taken(DType::i8, DType::i8, DType::u32, DType::i64));
  // Other values: -1 is 255 or 65535, 200 is -56, and a byte of a float may be rounded.
  EXPECT_FALSE(taken(DType::i8, DType::i8, DType::i32, DType::u8));
  EXPECT_FALSE(taken(DType::i8, DType::i8, DType::i32, DType::u16));
  EXPECT_FALSE(taken(DType::u8, DType::u8, DType::i32, DType::i8));
  EXPECT_FALSE(taken(DType::i8, DType::i8, DType::i32, DType::f32));
  // Other factors or sums.
  EXPECT_FALSE(taken(DType::i16, DType::i16, DType::i32, DType::none));
  EXPECT_FALSE(taken(DType::i8, DType::i16, DType::i32, DType::none));
  EXPECT_FALSE(taken(DType::i8, DType::i8, DType::i64, DType::none));
  EXPECT_FALSE(taken(DType::i8, DType::i8, DType::f32, DType::none));
  EXPECT_FALSE(taken(DType::bool_, DType::bool_, DType::i32, DType::none));
  EXPECT_FALSE(taken(DType::f32, DType::f32, DType::f64, DType::none));
  EXPECT_FALSE(taken(DType::f64, DType::f64, DType::f32, DType::none));
  EXPECT_FALSE(taken(DType::f64, DType::f64, DType::f64, DType::f32));
}

TEST(TensorCoreTypes, ChipsWithFewUnitsForDoublesMultiplyThemOtherwise) {
  Kernel doubles = matrices(64, 64, 64, false, false, {DType::f64, DType::f64, DType::f64});
  Kernel bytes = matrices(64, 64, 64, false, false, kBytes[0]);
  for (auto [features, real, whole] : {std::tuple{"sm_75", false, false},
                                       {"sm_80", true, true},
                                       {"sm_86", false, true},
                                       {"sm_89", false, true},
                                       {"sm_90a", true, true}}) {
    Target target = *gpu_target(features);
    EXPECT_EQ(product_of(doubles, target).has_value(), real) << features;
    EXPECT_EQ(product_of(bytes, target).has_value(), whole) << features;
  }
}

// A product of random reals in f64 differs from exact sums by a few roundings only.
TEST(TensorCoreTypes, DoublesKeepTheirDigits) {
  Kernel kernel = matrices(64, 64, 256, false, false, {DType::f64, DType::f64, DType::f64});
  Values inputs = small_integers(kernel, 5);
  std::mt19937 random(7);
  std::uniform_real_distribution<double> real(-1, 1);
  for (HostTensor& t : inputs) {
    for (int64_t i = 0; i < t.count(); ++i) t.set(i, real_scalar(real(random), DType::f64));
  }
  Schedule schedule = tensor_cores::schedules(kernel, h200_target(), 1).at(0);
  Values got = run_nest(lower(kernel, schedule, h200_target()), kernel, inputs);
  for (int64_t cell = 0; cell < 64 * 64; ++cell) {
    long double sum = 0, size = 0;
    for (int64_t k = 0; k < 256; ++k) {
      long double term = static_cast<long double>(inputs[0].at(cell / 64 * 256 + k).f) *
                         inputs[1].at(k * 64 + cell % 64).f;
      sum += term;
      size += std::abs(term);
    }
    EXPECT_LE(std::abs(static_cast<double>(sum) - got[2].at(cell).f),
              1e-15 * static_cast<double>(size) * 16);
  }
}

}  // namespace
}  // namespace tile::testing
