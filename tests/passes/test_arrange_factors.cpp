// Factors of products copied to where their tiles are fetched faster: values stay the same, and the
// product becomes one that the tensor cores, or coalesced reads, take.
#include <cmath>

#include "core/fusion/group.h"
#include "core/kernel/argument_layout.h"
#include "core/kernel/forms/tensor_core_gemm.h"
#include "core/pipeline/pipeline.h"
#include "tests/random/agreement/agreement.h"
#include "tests/support/run_tile.h"
#include "tests/support/small_integers.h"
#include "tests/support/step_runner.h"

namespace tile::test {
namespace {

// Copies cost little beside the products, so that small ones get them: one multiprocessor, so that
// latencies do not count.
Target eager() {
  Target t = h200_target();
  t.gpu.multiprocessors = 1;
  t.strict_skip = false;
  t.gpu.launch_ns = 0;
  t.dram_bytes_per_ns = 1e6;
  t.gpu.gigahertz *= 0.01 / t.fma_per_ns;  // slow for its clock, with as many lanes
  t.fma_per_ns = 0.01;
  t.gpu.matrix_per_ns = 1;
  return t;
}
// The same where threads can feed the tensor cores, but more slowly than bulk copies.
Target eager_for_bulk_copies() {
  Target t = eager();
  t.gpu.matrix_per_ns = 1e-3;
  return t;
}

// After all passes, once the values of small integers have been compared: those of the program's
// definition and of its nests.
BoundProgram arranged(const std::string& text, const std::vector<InputType>& types,
                      const Target& target) {
  BoundProgram program = bind_text(text, types);
  std::vector<HostTensor> inputs = small_integers(types);
  Interpretation expected = interpret(program, inputs);
  run_pipeline(program, target, {});
  EXPECT_EQ(interpret(program, inputs).outputs[0].bytes, expected.outputs[0].bytes)
      << print(program);
  StepRunner runner(program, inputs);
  for (const Step& step : group(program, target)) runner.run(step, 0, target);
  EXPECT_EQ(runner.outputs()[0].bytes, expected.outputs[0].bytes) << print(program);
  return program;
}

const Piece& last_piece(const BoundProgram& p) {
  return std::get<Contraction>(p.statements.back()).pieces.at(0);
}

// How many kernels, and whether the last runs on tensor cores fed by bulk copies.
void expect_bulk_product(const BoundProgram& program, const Target& target, size_t kernels) {
  std::vector<Step> steps = group(program, target);
  ASSERT_EQ(steps.size(), kernels) << print(program);
  const Kernel& kernel = std::get<Kernel>(steps.back());
  const Contraction& c = kernel.stages[0].contraction;
  std::optional<tensor_cores::Product> product =
      tensor_cores::product_of(c.pieces[0], c, kernel, target, argument_layouts(kernel));
  ASSERT_TRUE(product.has_value()) << print(program);
  EXPECT_TRUE(product->bulk);
}

constexpr const char* kFirstLayer =
    "function (I[N, H, W, C], K[R, S, C, D]) -> (O) {"
    "  O[n, y, x, d: N, (H + 1) / 2, (W + 1) / 2, D] ="
    "      +(I[n, 2 * y + j - 3, 2 * x + i - 3, c] * K[j, i, c, d]); }";

// wgmma takes bytes with neighbours in k only, and rows of whole accesses.
TEST(ArrangeFactors, BytesBecomeRowsOfTerms) {
  constexpr const char* kProduct =
      "function (A[M, L], B[L, N]) -> (C) {"
      "  C[i, j: M, N] = +(as_int(A[i, k], 32) * as_int(B[k, j], 32)); }";
  std::vector<InputType> types{{DType::u8, {64, 256}}, {DType::i8, {256, 64}}};
  BoundProgram p = arranged(kProduct, types, eager());
  expect_bulk_product(p, eager(), 2);
  // Rows of 72 bytes are no multiple of 16: both factors are copied.
  types = {{DType::i8, {128, 72}}, {DType::i8, {72, 128}}};
  p = arranged(kProduct, types, eager_for_bulk_copies());
  expect_bulk_product(p, eager_for_bulk_copies(), 3);
  EXPECT_EQ(last_piece(p).box.back(), 80);
}

// Conditions of sums of integers are zeros, in strict programs too.
TEST(ArrangeFactors, ConvolutionsOfBytesWithFewChannels) {
  constexpr const char* kBytes =
      "function (I[N, H, W, C], K[R, S, C, D]) -> (O) {"
      "  O[n, y, x, d: N, (H + 1) / 2, (W + 1) / 2, D] ="
      "      +(as_int(I[n, 2 * y + j - 3, 2 * x + i - 3, c], 32) * as_int(K[j, i, c, d], 32)); }";
  std::vector<InputType> types{{DType::u8, {2, 16, 18, 3}}, {DType::i8, {7, 7, 3, 64}}};
  Target target = eager();
  target.strict_skip = true;
  BoundProgram p = arranged(kBytes, types, target);
  expect_bulk_product(p, target, 3);
  // 7 rows of 21 neighbours, padded to 32.
  EXPECT_EQ(last_piece(p).box.back(), 7 * 32);
}

TEST(ArrangeFactors, FewChannelsBecomeOneRowOfTerms) {
  std::vector<InputType> types{{DType::bf16, {4, 16, 18, 3}}, {DType::bf16, {7, 7, 3, 64}}};
  BoundProgram p = arranged(kFirstLayer, types, eager());
  expect_bulk_product(p, eager(), 3);
  // 7 rows of 21 neighbours, padded to 24.
  EXPECT_EQ(last_piece(p).box.back(), 7 * 24);
  EXPECT_TRUE(last_piece(p).constraints.empty());
}

TEST(ArrangeFactors, NothingIsPaddedWithAZeroWhereNoPointMayBeSkipped) {
  std::vector<InputType> types{{DType::bf16, {2, 16, 18, 3}}, {DType::bf16, {7, 7, 3, 64}}};
  Target strict = eager();
  strict.strict_skip = true;
  EXPECT_EQ(arranged(kFirstLayer, types, strict).statements.size(), 1U);
}

TEST(ArrangeFactors, RowsOfOddLengthArePadded) {
  const char* text = "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";
  std::vector<InputType> types{{DType::f16, {101, 103}}, {DType::f16, {103, 107}}};
  expect_bulk_product(arranged(text, types, eager_for_bulk_copies()), eager_for_bulk_copies(), 3);
  EXPECT_EQ(arranged(text, types, a100_target()).statements.size(), 1U);
}

constexpr const char* kFilterGradient =
    "function (I[N, H, W, C], D[N, P, Q, O], K[R, S, 1]) -> (G) {"
    "  G[j, i, c, o: R, S, C, O] = +(D[n, y, x, o] * I[n, y + j - 1, x + i - 1, c]); }";

// Boxes of both take a few values of each reduction.
TEST(ArrangeFactors, FiltersHaveGradientsWithoutCopies) {
  std::vector<InputType> types{
      {DType::bf16, {2, 6, 7, 64}}, {DType::bf16, {2, 6, 7, 64}}, {DType::bf16, {3, 3, 1}}};
  BoundProgram p = arranged(kFilterGradient, types, eager());
  EXPECT_EQ(p.statements.size(), 1U) << print(p);
  expect_bulk_product(p, eager(), 1);
}

// A row of a copy has all taps of a term; the other factor is read where it lies.
TEST(ArrangeFactors, FewChannelsOfAFilterAreRowsOfTaps) {
  auto gradient = [](const std::string& place) {
    return "function (I[N, H, W, C], D[N, P, Q, O], K[R, S, 1]) -> (G) {"
           "  G[j, i, c, o: R, S, C, O] = +(D[n, y, x, o] * I[n, " +
           place + "]); }";
  };
  auto expect_rows = [&](const std::string& text, const std::vector<InputType>& types,
                         int64_t rows) {
    BoundProgram p = arranged(text, types, eager());
    ASSERT_EQ(p.statements.size(), 3U) << print(p);
    const Piece& product = std::get<Contraction>(p.statements[1]).pieces.at(0);
    EXPECT_EQ(product.box[0], rows);
    EXPECT_EQ(product.parallel_dims, 2U);
    EXPECT_TRUE(p.tensors[product.loads[0].tensor].view_of.has_value());
  };
  // 7 rows of 21 neighbours, padded to 24.
  expect_rows(
      gradient("2 * y + j - 3, 2 * x + i - 3, c"),
      {{DType::bf16, {2, 16, 18, 3}}, {DType::bf16, {2, 8, 9, 64}}, {DType::bf16, {7, 7, 1}}},
      7 * 24);
  // Taps that are no neighbours: 4 rows of 4 taps with 5 channels, padded to 8.
  expect_rows(gradient("y + 2 * j, x + 2 * i, c"),
              {{DType::f16, {3, 14, 15, 5}}, {DType::f16, {3, 8, 9, 72}}, {DType::f16, {4, 4, 1}}},
              4 * 4 * 8);
}

// An element for each tap of 25, read with a stride of three: the product is not so much faster.
TEST(ArrangeFactors, CopiesOfWindowsTakeTheirTime) {
  Target target = h200_target();
  target.strict_skip = false;
  BoundProgram p = bind_text(
      kFilterGradient,
      {{DType::bf16, {64, 30, 30, 3}}, {DType::bf16, {64, 30, 30, 8}}, {DType::bf16, {5, 5, 1}}});
  run_pipeline(p, target, {});
  EXPECT_EQ(p.statements.size(), 1U) << print(p);
}

TEST(ArrangeFactors, Tf32WantsNeighboursInK) {
  Target target = eager();
  target.precision = Precision::tf32;
  std::vector<InputType> types{{DType::f32, {96, 128}}, {DType::f32, {128, 96}}};
  auto product = [](const std::string& sizes, const std::string& a) {
    return "function (A[" + sizes + "], B[L, N]) -> (C) { C[i, j: M, N] = +(" + a +
           " * B[k, j]); }";
  };
  BoundProgram p = arranged(product("M, L", "A[i, k]"), types, target);
  expect_bulk_product(p, target, 2);
  types[0].shape = {128, 96};
  expect_bulk_product(arranged(product("L, M", "A[k, i]"), types, target), target, 3);
  target.precision = Precision::f32;
  EXPECT_EQ(arranged(product("L, M", "A[k, i]"), types, target).statements.size(), 1U);
}

TEST(ArrangeFactors, ThreeProductsOfTf32WantFactorsInTwoParts) {
  Target target = eager();
  target.precision = Precision::tf32x3;
  const char* text = "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";
  for (int64_t k : {128, 99}) {  // rows of 99 are padded
    std::vector<InputType> types{{DType::f32, {96, k}}, {DType::f32, {k, 112}}};
    BoundProgram p = arranged(text, types, target);
    expect_bulk_product(p, target, 3);
    EXPECT_EQ(print(parse_bound(std::make_shared<Source>(Source{"<bound>", print(p)}))), print(p));
    EXPECT_EQ(arranged(text, types, a100_target()).statements.size(), 1U);
  }
  const char* convolution =
      "function (I[N, H, W, C], K[R, S, C, D]) -> (O) {"
      "  O[n, y, x, d: N, H, W, D] = +(I[n, y + j - 1, x + i - 1, c] * K[j, i, c, d]); }";
  std::vector<InputType> types{{DType::f32, {2, 9, 10, 32}}, {DType::f32, {3, 3, 32, 64}}};
  expect_bulk_product(arranged(convolution, types, target), target, 3);
}

// Against doubles: sums of the parts' products err little more than those of f32, whatever the
// factors' magnitudes; a NaN stays one, an infinity becomes one.
TEST(ArrangeFactors, PartsHoldWhatSinglePrecisionHolds) {
  Target target = eager();
  target.precision = Precision::tf32x3;
  const char* text = "function (A[M, L], B[L, N]) -> (C) { C[i, j: M, N] = +(A[i, k] * B[k, j]); }";
  const int64_t m = 96, k = 128;
  std::vector<InputType> types{{DType::f32, {m, k}}, {DType::f32, {k, m}}};
  BoundProgram program = bind_text(text, types);
  run_pipeline(program, target, {});
  ASSERT_EQ(program.statements.size(), 3U);
  for (double scale : {1.0, 0x1p-40, 0x1p110}) {
    HostTensor a(DType::f32, {m, k}), b(DType::f32, {k, m});
    for (int64_t i = 0; i < m * k; ++i) {
      a.set(i, real_scalar((0.3 + std::sin(static_cast<double>(i))) * scale, DType::f32));
      b.set(i, real_scalar((0.2 + std::cos(static_cast<double>(3 * i))) / scale, DType::f32));
    }
    // Exact from here on: the parts as tf32 takes them.
    std::vector<HostTensor> both{a, b};
    HostTensor got = interpret(program, both).outputs[0];
    for (int64_t i = 0; i < m; i += 7) {
      for (int64_t j = 0; j < m; j += 5) {
        double sum = 0, size = 0;
        for (int64_t x = 0; x < k; ++x) {
          double term = a.at(i * k + x).f * b.at(x * m + j).f;
          sum += term;
          size += std::abs(term);
        }
        EXPECT_NEAR(got.at(i * m + j).f, sum, 1e-6 * size);
      }
    }
  }
  for (double special : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    HostTensor a(DType::f32, {m, k}), b(DType::f32, {k, m});
    for (int64_t i = 0; i < m * k; ++i) {
      a.set(i, real_scalar(i == 0 ? special : 1, DType::f32));
      b.set(i, real_scalar(1, DType::f32));
    }
    HostTensor got = interpret(program, {a, b}).outputs[0];
    EXPECT_TRUE(std::isnan(got.at(0).f));
    EXPECT_EQ(got.at(m).f, static_cast<double>(k));
  }
}

TEST(ArrangeFactors, DimensionsOfPermutedTensorsStandInGroups) {
  const char* text =
      "function (X[A, E, B, F], Y[D, F, C, E]) -> (O) {"
      "  O[a, b, c, d: A, B, C, D] = +(X[a, e, b, f] * Y[d, f, c, e]); }";
  std::vector<InputType> types{{DType::f32, {16, 8, 8, 16}}, {DType::f32, {16, 16, 4, 8}}};
  Target target = eager();
  BoundProgram p = arranged(text, types, target);
  ASSERT_EQ(p.statements.size(), 3U) << print(p);
  std::vector<Step> steps = group(p, target);
  // Rows, columns and terms are one index each.
  EXPECT_EQ(std::get<Kernel>(steps.back()).stages[0].contraction.pieces[0].box.size(), 3U);
  EXPECT_EQ(arranged(text, types, Target{}).statements.size(), 1U);  // a CPU packs
  const char* grouped =
      "function (X[E, F, A], Y[E, F, C]) -> (O) { O[a, c: A, C] = +(X[e, f, a] * Y[e, f, c]); }";
  types = {{DType::f32, {16, 8, 96}}, {DType::f32, {16, 8, 96}}};
  EXPECT_EQ(arranged(grouped, types, target).statements.size(), 1U);
}

}  // namespace
}  // namespace tile::test
