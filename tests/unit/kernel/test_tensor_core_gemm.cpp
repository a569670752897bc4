// Products on tensor cores: which kernels they take, and their nests run by the interpreter against
// brute force, before and after the nest's text form.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "core/kernel/forms/tensor_core_gemm.h"
#include "core/nest/passes/nest_passes.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/legality/tensor_core_gemm_legality.h"
#include "core/schedule/space/candidates.h"
#include "core/schedule/space/tensor_core_gemm_space.h"
#include "tests/random/sweep.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

NodeId product(Body& b, const std::vector<NodeId>& loads) {
  return b.operation(Op::mul, {loads[0], loads[1]}, DType::f32);
}

using Names = std::vector<std::string>;
Kernel product_kernel(Names iterators, std::vector<int64_t> box, size_t parallel_dims,
                      std::pair<Shape, Names> a, std::pair<Shape, Names> b,
                      std::pair<Shape, Names> c, DType type = DType::bf16,
                      std::vector<std::tuple<std::string, int64_t, int64_t>> constraints = {}) {
  KernelBuilder k;
  TensorId A = k.tensor("A", type, a.first), B = k.tensor("B", type, b.first);
  TensorId C = k.tensor("C", type, c.first);
  k.stage(C, Aggregation::sum, DType::f32,
          {{std::move(iterators),
            std::move(box),
            parallel_dims,
            c.second,
            {{A, a.second}, {B, b.second}},
            std::move(constraints),
            product}});
  return k.finish();
}

Target hopper() {
  Target t = h200_target();
  t.strict_skip = false;
  return t;
}

void expect_tiles_agree(const Kernel& kernel, const Target& target = hopper()) {
  Values inputs = small_integers(kernel, 5);
  Values expected = inputs;
  brute_force(kernel, expected);
  std::vector<Schedule> all = tensor_cores::schedules(kernel, target, 3);
  ASSERT_FALSE(all.empty());
  for (const Schedule& schedule : all) {
    EXPECT_EQ(parse_schedule(print(schedule)), schedule);
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

TEST(TensorCoreGemm, ProductsOfEveryLayout) {
  int64_t m = 136, n = 72, k = 88;
  for (bool a_transposed : {false, true}) {
    for (bool b_transposed : {false, true}) {
      std::pair<Shape, Names> a{{m, k}, {"i", "k"}}, b{{k, n}, {"k", "j"}};
      if (a_transposed) a = {{k, m}, {"k", "i"}};
      if (b_transposed) b = {{n, k}, {"j", "k"}};
      expect_tiles_agree(product_kernel({"i", "j", "k"}, {m, n, k}, 2, a, b, {{m, n}, {"i", "j"}}));
    }
  }
}

struct Sharing {
  int64_t split = 1, cluster = 1, stream_k = 1;
};
// Every one of these ways to share the steps of tiles that is legal for the kernel's best schedule;
// so many are added to `ways`. The first one's nest is run before passes change it, too.
void expect_ways_agree(const Kernel& kernel, const Target& target, const std::vector<Sharing>& list,
                       int& ways) {
  Values inputs = small_integers(kernel, 5);
  Values expected = inputs;
  brute_force(kernel, expected);
  bool first = true;
  for (const Sharing& how : list) {
    Schedule schedule = tensor_cores::schedules(kernel, target, 1).at(0);
    TensorCoreGemm& t = *schedule.stages[0][0].form<TensorCoreGemm>();
    t.split = how.split;
    t.cluster = how.cluster;
    t.stream_k = how.stream_k;
    if (!illegal(schedule, kernel, target).empty()) continue;
    ++ways;
    EXPECT_EQ(parse_schedule(print(schedule)), schedule);
    nest::Nest nest = lower(kernel, schedule, target);
    nest::verify(nest);
    std::string text = nest::print(nest);
    nest::Nest again = nest::parse_nest(std::make_shared<Source>(Source{"<nest>", text}));
    EXPECT_EQ(nest::print(again), text);
    if (std::exchange(first, false)) {
      ASSERT_EQ(difference(kernel, expected, run_nest(again, kernel, inputs)), "") << text;
    }
    ASSERT_EQ(
        difference(kernel, expected, run_nest(nest::run_passes(nest, target), kernel, inputs)), "");
  }
}
void expect_ways_agree(const Kernel& kernel, const Target& target,
                       const std::vector<Sharing>& list) {
  int ways = 0;
  expect_ways_agree(kernel, target, list, ways);
  EXPECT_GE(ways, list.size() > 4 ? 3 : 1);
}

void expect_shared_steps_agree(const Kernel& kernel, const Target& target, int64_t most) {
  std::vector<Sharing> list;
  for (int64_t split = 1; split <= most; ++split) {
    for (int64_t cluster : {1, 2, 4}) list.push_back({split, cluster});
  }
  expect_ways_agree(kernel, target, list);
}

TEST(TensorCoreGemm, PartsOfAProductAreAddedInOrder) {
  for (const Target& target : {hopper(), a100_target()}) {
    expect_shared_steps_agree(matrix_product(70, 72, 328, DType::bf16), target, 6);
    expect_shared_steps_agree(
        product_kernel({"p", "q", "j", "r", "k"}, {5, 24, 72, 3, 72}, 3,
                       {{3, 5, 24, 72}, {"r", "p", "q", "k"}}, {{3, 72, 72}, {"r", "k", "j"}},
                       {{5, 24, 72}, {"p", "q", "j"}}),
        target, 4);
    expect_shared_steps_agree(
        product_kernel({"b", "i", "j", "k"}, {3, 40, 72, 160}, 3, {{3, 40, 160}, {"b", "i", "k"}},
                       {{3, 160, 72}, {"b", "k", "j"}}, {{3, 40, 72}, {"b", "i", "j"}}),
        target, 3);
  }
  Target target = hopper();
  target.precision = Precision::tf32;
  expect_shared_steps_agree(matrix_bias_gelu(72, 88, 140), target, 4);
}

TEST(TensorCoreGemm, StreamsWhereRoundsOfTilesAreFarFromFull) {
  auto stream_of = [](int64_t m, int64_t n, int64_t k) {
    Schedule best = analytic_schedule(matrix_product(m, n, k, DType::bf16), hopper());
    return best.stages[0][0].form<TensorCoreGemm>()->stream_k;
  };
  EXPECT_EQ(stream_of(1536, 1536, 8192), hopper().gpu.multiprocessors);
  EXPECT_EQ(stream_of(4096, 4096, 4096), 1);
  EXPECT_EQ(stream_of(2048, 2048, 2048), 1);
  EXPECT_EQ(stream_of(1000, 1000, 1000), 1);
}

TEST(TensorCoreGemm, FewTilesShareTheirSteps) {
  Kernel kernel = matrix_product(16, 4096, 4096, DType::bf16);
  Schedule best = analytic_schedule(kernel, hopper());
  const TensorCoreGemm& t = *best.stages[0][0].form<TensorCoreGemm>();
  EXPECT_GT(t.split * t.cluster, 1);
}

TEST(TensorCoreGemm, TransposedResultSwapsTheOperands) {
  expect_tiles_agree(product_kernel({"i", "j", "k"}, {80, 72, 64}, 2, {{80, 64}, {"i", "k"}},
                                    {{64, 72}, {"k", "j"}}, {{72, 80}, {"j", "i"}}, DType::f16));
}

TEST(TensorCoreGemm, BatchesAndSeveralRowsAndReductions) {
  expect_tiles_agree(product_kernel({"b", "i", "j", "k"}, {3, 40, 72, 24}, 3,
                                    {{3, 40, 24}, {"b", "i", "k"}}, {{3, 24, 72}, {"b", "k", "j"}},
                                    {{3, 40, 72}, {"b", "i", "j"}}));
  expect_tiles_agree(product_kernel(
      {"p", "q", "j", "r", "k"}, {5, 24, 72, 3, 32}, 3, {{3, 5, 24, 32}, {"r", "p", "q", "k"}},
      {{3, 32, 72}, {"r", "k", "j"}}, {{5, 24, 72}, {"p", "q", "j"}}));
}

TEST(TensorCoreGemm, ConvolutionsByBoxesRule4_12) {
  for (int64_t stride : {1, 2}) {
    int64_t size = 9, out = (size + 2 - 3) / stride + 1;
    std::string s = std::to_string(stride);
    std::string row = s + "*y + r - 1", column = s + "*x + q - 1";
    Kernel kernel = product_kernel({"b", "y", "x", "o", "r", "q", "c"}, {2, out, out, 64, 3, 3, 32},
                                   4, {{2, size, size, 32}, {"b", row, column, "c"}},
                                   {{3, 3, 32, 64}, {"r", "q", "c", "o"}},
                                   {{2, out, out, 64}, {"b", "y", "x", "o"}}, DType::bf16,
                                   {{row, 0, size}, {column, 0, size}});
    expect_tiles_agree(kernel);
    // A skipped point may not meet an infinite factor.
    EXPECT_TRUE(tensor_cores::schedules(kernel, h200_target(), 1).empty());
  }
}

// Bulk copies of tf32 want k inside: B transposed.
Kernel finished_product(int64_t m, int64_t n, int64_t k) {
  Kernel kernel = matrix_bias_gelu(m, n, k);
  for (TensorId id : kernel.tensors.ids()) {
    if (kernel.tensors[id].name == "B") kernel.tensors.edit(id).shape = {n, k};
  }
  std::swap(kernel.stages[0].contraction.pieces[0].loads[1].index[0],
            kernel.stages[0].contraction.pieces[0].loads[1].index[1]);
  return kernel;
}

TEST(TensorCoreGemm, AttachedStagesFinishTheFragment) {
  Kernel kernel = finished_product(72, 88, 40);
  Target target = hopper();
  EXPECT_TRUE(tensor_cores::schedules(kernel, target, 1).empty());  // f32 stays f32
  target.precision = Precision::tf32;
  expect_tiles_agree(kernel, target);
}

Kernel layout_kernel(int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed) {
  std::pair<Shape, Names> a{{m, k}, {"i", "k"}}, b{{k, n}, {"k", "j"}};
  if (a_transposed) a = {{k, m}, {"k", "i"}};
  if (b_transposed) b = {{n, k}, {"j", "k"}};
  return product_kernel({"i", "j", "k"}, {m, n, k}, 2, a, b, {{m, n}, {"i", "j"}}, DType::f32);
}

TEST(TensorCoreGemm, SinglePrecisionOfEveryLayoutOnRequest) {
  for (Precision precision : {Precision::tf32, Precision::tf32x3}) {
    for (Target target : {hopper(), a100_target()}) {
      target.precision = precision;
      for (int layout = 0; layout < 4; ++layout) {
        expect_tiles_agree(layout_kernel(70, 67, 45, layout % 2 != 0, layout / 2 != 0), target);
      }
    }
  }
}

// The product of two factors that are in two parts each, as arrange-factors makes it.
Kernel split_kernel(int64_t m, int64_t n, int64_t k) {
  KernelBuilder b;
  TensorId A = b.tensor("A", DType::f32, {m, 2, k}), B = b.tensor("B", DType::f32, {n, 2, k});
  TensorId C = b.tensor("C", DType::f32, {m, n});
  b.stage(
      C, Aggregation::sum, DType::f32,
      {{{"i", "j", "k"},
        {m, n, k},
        2,
        {"i", "j"},
        {{A, {"i", "0", "k"}}, {B, {"j", "0", "k"}}, {A, {"i", "1", "k"}}, {B, {"j", "1", "k"}}},
        {},
        [](Body& body, const std::vector<NodeId>& l) {
          auto mul = [&](int x, int y) {
            return body.operation(Op::mul, {l[size_t(x)], l[size_t(y)]}, DType::f32);
          };
          NodeId large = mul(0, 1), left = mul(2, 1), right = mul(0, 3);
          NodeId small = body.operation(Op::add, {left, right}, DType::f32);
          return body.operation(Op::add, {large, small}, DType::f32);
        }}});
  Kernel kernel = b.finish();
  for (TensorId id : {A, B}) {
    kernel.tensors.edit(id).role = TensorRole::temporary;
    kernel.tensors.edit(id).tf32_parts = true;
  }
  return kernel;
}

TEST(TensorCoreGemm, FactorsInTwoPartsAreThreeProducts) {
  Target target = hopper();
  target.precision = Precision::tf32x3;
  expect_tiles_agree(split_kernel(130, 75, 76), target);
  expect_shared_steps_agree(split_kernel(70, 72, 520), target, 3);
  // Only where they are marked so, and where three products are wanted.
  Kernel plain = split_kernel(128, 128, 128);
  EXPECT_FALSE(tensor_cores::schedules(plain, target, 1).empty());
  target.precision = Precision::tf32;
  EXPECT_TRUE(tensor_cores::schedules(plain, target, 1).empty());
  target.precision = Precision::tf32x3;
  plain.tensors.edit(1).tf32_parts = false;
  EXPECT_TRUE(tensor_cores::schedules(plain, target, 1).empty());
}

// Whole tiles and cut ones, edges inside both; of all tiles none whole, or all but one.
TEST(TensorCoreGemm, BlocksOfAStreamShareTheLastTiles) {
  uint64_t kernels = 0;
  // All streams in a sweep, else every second, others for each kernel.
  auto streams = [&kernels] {
    std::vector<Sharing> list;
    uint64_t number = 0, turn = kernels++;
    for (int64_t stream : {2, 5, 7, 11, 16, 29, 40, 71}) {
      if (test::swept(number++, 2, turn)) list.push_back({1, 1, stream});
    }
    return list;
  };
  expect_ways_agree(matrix_product(200, 136, 328, DType::bf16), hopper(), streams());
  expect_ways_agree(product_kernel({"p", "q", "j", "r", "k"}, {5, 24, 72, 3, 72}, 3,
                                   {{3, 5, 24, 72}, {"r", "p", "q", "k"}},
                                   {{3, 72, 72}, {"r", "k", "j"}}, {{5, 24, 72}, {"p", "q", "j"}}),
                    hopper(), streams());
  expect_ways_agree(
      product_kernel({"b", "i", "j", "k"}, {3, 72, 72, 160}, 3, {{3, 72, 160}, {"b", "i", "k"}},
                     {{3, 160, 72}, {"b", "k", "j"}}, {{3, 72, 72}, {"b", "i", "j"}}),
      hopper(), streams());
  Target target = hopper();
  target.precision = Precision::tf32;
  expect_ways_agree(finished_product(200, 136, 268), target, streams());
  target.precision = Precision::tf32x3;
  expect_ways_agree(split_kernel(70, 136, 200), target, streams());
}

TEST(TensorCoreGemm, StreamsOfRandomProducts) {
  std::mt19937 random(11);
  auto draw = [&](int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random() % static_cast<uint64_t>(hi - lo + 1));
  };
  int ways = 0;
  size_t products = test::sweep(0, 12, 5).size();
  for (size_t i = 0; i < products; ++i) {
    int64_t m = draw(17, 220), n = 8 * draw(3, 24), k = 8 * draw(3, 50);
    std::vector<Sharing> list;
    for (int j = 0; j < 4; ++j) list.push_back({1, 1, draw(2, 40)});
    expect_ways_agree(matrix_product(m, n, k, DType::bf16), hopper(), list, ways);
  }
  EXPECT_GE(ways, static_cast<int>(products));
}

TEST(TensorCoreGemm, AStreamHasTilesToCutAndNoOtherSharing) {
  Kernel kernel = matrix_product(200, 136, 328, DType::bf16);
  Schedule schedule = tensor_cores::schedules(kernel, hopper(), 1).at(0);
  TensorCoreGemm& t = *schedule.stages[0][0].form<TensorCoreGemm>();
  t.split = t.cluster = 1;
  for (auto [stream, split, legal] : {std::tuple<int64_t, int64_t, bool>{5, 1, true},
                                      {5, 2, false},
                                      {0, 1, false},
                                      {999, 1, false}}) {
    t.stream_k = stream;
    t.split = split;
    EXPECT_EQ(illegal(schedule, kernel, hopper()).empty(), legal) << stream << " " << split;
  }
  Kernel threads = matrix_product(200, 136, 327, DType::bf16);  // no bulk copies
  schedule = tensor_cores::schedules(threads, hopper(), 1).at(0);
  schedule.stages[0][0].form<TensorCoreGemm>()->stream_k = 5;
  EXPECT_NE(illegal(schedule, threads, hopper()), "");
}

// The largest error of a product of random reals, of the largest sum's magnitude.
double tile_error(Precision precision) {
  Kernel kernel = layout_kernel(64, 64, 256, false, false);
  Values inputs = small_integers(kernel, 5);
  std::mt19937 random(7);
  std::uniform_real_distribution<double> real(-1, 1);
  for (HostTensor& t : inputs) {
    for (int64_t i = 0; i < t.count(); ++i) t.set(i, real_scalar(real(random), DType::f32));
  }
  Target target = hopper();
  target.precision = precision;
  Schedule schedule = tensor_cores::schedules(kernel, target, 1).at(0);
  Values got = run_nest(lower(kernel, schedule, target), kernel, inputs);
  double error = 0, largest = 0;
  for (int64_t i = 0; i < 64; ++i) {
    for (int64_t j = 0; j < 64; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 256; ++k)
        sum += inputs[0].at(i * 256 + k).f * inputs[1].at(k * 64 + j).f;
      largest = std::max(largest, std::abs(sum));
      error = std::max(error, std::abs(sum - got[2].at(i * 64 + j).f));
    }
  }
  return error / largest;
}

TEST(TensorCoreGemm, ThreeProductsOfTf32AreCloseToSinglePrecision) {
  double rounded = tile_error(Precision::tf32), split = tile_error(Precision::tf32x3);
  EXPECT_GT(rounded, 1e-5);
  EXPECT_LT(rounded, 2e-3);
  EXPECT_LT(split, 2e-6);
}

TEST(TensorCoreGemm, RoundingToTf32KeepsNanAndInfinity) {
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Kernel kernel = layout_kernel(16, 16, 16, false, true);
  Target target = hopper();
  target.precision = Precision::tf32;
  for (double special : {infinity, -infinity, nan}) {
    Values inputs = small_integers(kernel, 5);
    for (HostTensor& t : inputs) {
      for (int64_t i = 0; i < t.count(); ++i) t.set(i, real_scalar(1, DType::f32));
    }
    inputs[0].set(0, real_scalar(special, DType::f32));
    Schedule schedule = tensor_cores::schedules(kernel, target, 1).at(0);
    Values got = run_nest(lower(kernel, schedule, target), kernel, inputs);
    EXPECT_TRUE(std::isnan(special) ? std::isnan(got[2].at(0).f) : got[2].at(0).f == special);
    EXPECT_EQ(got[2].at(16).f, 16);
  }
}

// Elements of k in a step: 64 where bulk copies serve, 32 where threads copy, 0: no tensor cores.
int64_t depth_of(const Kernel& kernel, const Target& target = hopper()) {
  std::vector<Schedule> all = tensor_cores::schedules(kernel, target, 1);
  return all.empty() ? 0 : all[0].stages[0][0].form<TensorCoreGemm>()->tile.back();
}

TEST(TensorCoreGemm, BoxesComeByBulkCopiesOrByThreads) {
  EXPECT_EQ(depth_of(matrix_product(64, 64, 64, DType::bf16)), 64);
  // Rows of 90 bytes are no multiple of 16.
  EXPECT_EQ(depth_of(matrix_product(64, 64, 45, DType::bf16)), 32);
  EXPECT_EQ(depth_of(matrix_product(64, 64, 64, DType::bf16), a100_target()), 32);
  EXPECT_EQ(depth_of(matrix_product(64, 64, 64, DType::f32)), 0);
  EXPECT_EQ(depth_of(matrix_product(64, 64, 64, DType::i16)), 0);
  // A diagonal: one iterator moves along two dimensions.
  EXPECT_EQ(
      depth_of(product_kernel({"i", "j", "k"}, {64, 64, 64}, 2, {{64, 64, 64}, {"i", "i", "k"}},
                              {{64, 64}, {"k", "j"}}, {{64, 64}, {"i", "j"}})),
      0);
}

TEST(TensorCoreGemm, ThreadsCopyWhatBulkCopiesCannot) {
  expect_tiles_agree(matrix_product(70, 67, 45, DType::bf16));
  expect_tiles_agree(matrix_product(70, 72, 40, DType::f16), a100_target());
  expect_tiles_agree(product_kernel({"b", "i", "j", "k"}, {3, 33, 65, 35}, 3,
                                    {{3, 35, 33}, {"b", "k", "i"}}, {{3, 65, 35}, {"b", "j", "k"}},
                                    {{3, 33, 65}, {"b", "i", "j"}}));
}

TEST(TensorCoreGemm, LargeProductsTakeLargeTiles) {
  Kernel kernel = matrix_product(4096, 4096, 4096, DType::bf16);
  Schedule best = analytic_schedule(kernel, hopper());
  const TensorCoreGemm& t = *best.stages[0][0].form<TensorCoreGemm>();
  EXPECT_EQ(t.tile[0] * t.tile[1], 128 * 256);
  // Few tiles: smaller ones, so that no multiprocessor is idle.
  best = analytic_schedule(matrix_product(1024, 1024, 1024, DType::bf16), hopper());
  EXPECT_LE(best.stages[0][0].form<TensorCoreGemm>()->tile[0] *
                best.stages[0][0].form<TensorCoreGemm>()->tile[1],
            64 * 128);
}

TEST(TensorCoreGemm, StridesWithoutBoxesFallBack) {
  Kernel kernel = matrix_product(64, 64, 64, DType::bf16);
  Schedule schedule = tensor_cores::schedules(kernel, hopper(), 1)[0];
  EXPECT_TRUE(tensor_cores::fits_strides(schedule, kernel, hopper(), {}));
  Strides odd(kernel.tensors.size());
  odd[0] = {65, 1};
  EXPECT_FALSE(tensor_cores::fits_strides(schedule, kernel, hopper(), odd));
}

}  // namespace
}  // namespace tile::testing
