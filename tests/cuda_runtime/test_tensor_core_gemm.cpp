// Products on tensor cores compile: registers suffice, no asynchronous product waits for another.
#include <gtest/gtest.h>

#include "backends/cuda/source.h"
#include "core/kernel/forms/tensor_core_gemm.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/tensor_core_gemm_space.h"
#include "tests/cuda_runtime/real_nvrtc.h"
#include "tests/random/sweep.h"
#include "tests/support/narrow_filter_gradient.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

using Names = std::vector<std::string>;

Kernel product_kernel(const Names& iterators, const std::vector<int64_t>& box, size_t parallel_dims,
                      const std::pair<Shape, Names>& a, const std::pair<Shape, Names>& b,
                      const std::pair<Shape, Names>& c, DType type, bool gelu = false) {
  KernelBuilder k;
  TensorId A = k.tensor("A", type, a.first), B = k.tensor("B", type, b.first);
  TensorId C = k.tensor("C", gelu ? DType::f32 : type, c.first);
  TensorId bias = k.tensor("bias", type, {c.first.back()}), D = k.tensor("D", type, c.first);
  auto product = [](Body& body, const std::vector<NodeId>& l) {
    return body.operation(Op::mul, {l[0], l[1]}, DType::f32);
  };
  auto finish = [](Body& body, const std::vector<NodeId>& l) {
    NodeId sum = body.operation(Op::add, {body.cast(l[0], DType::f32), body.cast(l[1], DType::f32)},
                                DType::f32);
    return body.operation(Op::gelu, {sum}, DType::f32);
  };
  KernelStage& main = k.stage(
      C, Aggregation::sum, DType::f32,
      {{iterators, box, parallel_dims, c.second, {{A, a.second}, {B, b.second}}, {}, product}});
  if (!gelu) return k.finish();
  main.residence = Residence::registers;
  Names cell(iterators.begin(), iterators.begin() + static_cast<std::ptrdiff_t>(parallel_dims));
  std::vector<int64_t> extents(box.begin(),
                               box.begin() + static_cast<std::ptrdiff_t>(parallel_dims));
  k.stage(D, Aggregation::assign, DType::f32,
          {{cell,
            extents,
            parallel_dims,
            c.second,
            {{C, c.second}, {bias, {c.second.back()}}},
            {},
            finish}})
      .attach = StageId(0);
  return k.finish();
}

Kernel matrices(int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed, DType type,
                bool gelu = false) {
  std::pair<Shape, Names> a{{m, k}, {"i", "k"}}, b{{k, n}, {"k", "j"}};
  if (a_transposed) a = {{k, m}, {"k", "i"}};
  if (b_transposed) b = {{n, k}, {"j", "k"}};
  return product_kernel({"i", "j", "k"}, {m, n, k}, 2, a, b, {{m, n}, {"i", "j"}}, type, gelu);
}

class TensorCoreCode : public cuda::RealNvrtcTest {
 protected:
  // Compiles the best `count` schedules, of more than three half unless in a sweep; `instruction`
  // stands in each text.
  void expect_compiles(const Kernel& kernel, const Target& target, size_t count,
                       const std::string& instruction) {
    size_t quick = count > 3 ? (count + 1) / 2 : count;
    count = test::sweep(0, count, quick).size();
    std::vector<Schedule> all = tensor_cores::schedules(kernel, target, count);
    ASSERT_FALSE(all.empty());
    for (const Schedule& schedule : all) {
      cuda::CudaSource source = cuda::print_cuda(lower(kernel, schedule, target), target);
      EXPECT_NE(source.text.find(instruction), std::string::npos);
      for (const cuda::CudaKernel& k : source.kernels) {
        EXPECT_LE(static_cast<int64_t>(k.shared_bytes), target.gpu.shared_per_block);
      }
      cuda::Compiled code = nvrtc_->compile(source.text, target.features);
      EXPECT_FALSE(code.serialized_wgmma) << print(schedule) << code.log;
      EXPECT_TRUE(code.spills.empty()) << print(schedule) << code.log;
    }
  }
};

TEST_F(TensorCoreCode, BulkCopiesAndWgmmaOfEveryLayout) {
  Target target = h200_target();
  expect_compiles(matrices(4096, 4096, 4096, false, false, DType::bf16), target, 7, "wgmma");
  expect_compiles(matrices(1000, 1032, 520, true, true, DType::f16), target, 2, "wgmma");
  expect_compiles(matrices(4096, 4096, 4096, true, false, DType::bf16), target, 1, "wgmma");
  target.precision = Precision::tf32;
  expect_compiles(matrices(512, 512, 512, false, true, DType::f32), target, 1, ".tf32.tf32");
}

// Steps are boxes over pictures, rows and columns.
TEST_F(TensorCoreCode, GradientsOfFilters) {
  Target target = h200_target();
  target.strict_skip = false;
  expect_compiles(filter_gradient({16, 28, 28, 128, 128}), target, 2, "wgmma");
  expect_compiles(filter_gradient({4, 57, 31, 64, 192, 3, 2, 1, 1, DType::f16}), target, 1,
                  "wgmma");
  target = a100_target();
  target.strict_skip = false;
  expect_compiles(filter_gradient({16, 14, 15, 40, 72}), target, 1, "mma_bf16");
}

TEST_F(TensorCoreCode, SinglePrecisionByThreeProductsOrOne) {
  uint64_t number = 0;
  for (Precision precision : {Precision::tf32, Precision::tf32x3}) {
    for (Target target : {h200_target(), a100_target()}) {
      target.precision = precision;
      size_t count = test::swept(number++, 2) ? 4 : 1;
      expect_compiles(matrices(1024, 1024, 1024, false, false, DType::f32), target, count,
                      "mma_tf32");
      expect_compiles(matrices(1000, 333, 47, true, false, DType::f32, true), target, 1,
                      "mma_tf32");
      expect_compiles(matrices(257, 64, 99, true, true, DType::f32), target, 1, "mma_tf32");
    }
  }
}

// Factors in two parts, as arrange-factors makes them.
TEST_F(TensorCoreCode, ThreeProductsByWgmma) {
  Target target = h200_target();
  target.precision = Precision::tf32x3;
  for (auto [m, n, k] :
       {std::tuple<int64_t, int64_t, int64_t>{2048, 2048, 2048}, {200, 72, 2080}}) {
    Kernel kernel = product_kernel({"i", "j", "k"}, {m, n, k}, 2, {{m, 2, k}, {"i", "0", "k"}},
                                   {{n, 2, k}, {"j", "0", "k"}}, {{m, n}, {"i", "j"}}, DType::f32);
    Piece& piece = kernel.stages[0].contraction.pieces[0];
    for (size_t i = 0; i < 2; ++i) {
      BoundTensor& t = kernel.tensors.edit(piece.loads[i].tensor);
      t.role = TensorRole::temporary;
      t.tf32_parts = true;
      piece.loads.push_back(piece.loads[i]);
      piece.loads.back().index[1].affine = constant_affine(1);
    }
    Body& b = piece.body;
    auto load = [&](int slot) { return b.load(slot, DType::f32); };
    auto add = [&](NodeId x, NodeId y) { return b.operation(Op::add, {x, y}, DType::f32); };
    auto mul = [&](int x, int y) { return b.operation(Op::mul, {load(x), load(y)}, DType::f32); };
    NodeId large = mul(0, 1), left = mul(2, 1), right = mul(0, 3);
    b.results = {add(large, add(left, right))};
    expect_compiles(kernel, target, 4, "_multiply(part_sum");
  }
}

TEST_F(TensorCoreCode, EpiloguesAndBatches) {
  Target target = h200_target();
  expect_compiles(matrices(4096, 4096, 512, false, false, DType::bf16, true), target, 2, "wgmma");
  expect_compiles(matrices(1000, 1032, 520, false, false, DType::bf16, true), target, 1, "wgmma");
  expect_compiles(product_kernel({"b", "y", "x", "o", "r", "s", "c"}, {8, 12, 12, 64, 3, 3, 64}, 4,
                                 {{8, 14, 14, 64}, {"b", "y + r", "x + s", "c"}},
                                 {{3, 3, 64, 64}, {"r", "s", "c", "o"}},
                                 {{8, 12, 12, 64}, {"b", "y", "x", "o"}}, DType::bf16),
                  target, 2, "wgmma");
}

TEST_F(TensorCoreCode, BlocksThatShareATile) {
  auto shared = [&](const Kernel& kernel, const Target& target, int64_t split, int64_t cluster,
                    int64_t stream = 1) {
    for (Schedule schedule : tensor_cores::schedules(kernel, target, test::sweep(0, 3, 1).size())) {
      schedule.stages[0][0].form<TensorCoreGemm>()->split = split;
      schedule.stages[0][0].form<TensorCoreGemm>()->cluster = cluster;
      schedule.stages[0][0].form<TensorCoreGemm>()->stream_k = stream;
      ASSERT_EQ(illegal(schedule, kernel, target), "");
      cuda::CudaSource source = cuda::print_cuda(lower(kernel, schedule, target), target);
      EXPECT_EQ(source.kernels.size(), split > 1 || stream > 1 ? 2U : 1U);
      EXPECT_EQ(source.text.find("__cluster_dims__") != std::string::npos, cluster > 1);
      cuda::Compiled code = nvrtc_->compile(source.text, target.features);
      EXPECT_FALSE(code.serialized_wgmma) << print(schedule) << code.log;
      EXPECT_TRUE(code.spills.empty()) << print(schedule) << code.log;
    }
  };
  shared(matrices(16, 4096, 4096, false, false, DType::bf16), h200_target(), 1, 2);
  shared(matrices(512, 512, 2048, false, true, DType::f16, true), h200_target(), 1, 4);
  shared(matrices(512, 512, 2048, true, false, DType::f16, true), h200_target(), 3, 1);
  shared(matrices(333, 65, 2048, false, false, DType::bf16), a100_target(), 3, 1);
  shared(matrices(2048, 3072, 2048, false, false, DType::bf16), h200_target(), 1, 1, 131);
  shared(matrices(1000, 520, 2048, true, false, DType::f16, true), h200_target(), 1, 1, 131);
}

// The product of factors converted to the sum's type; with `scaled`, a stage that brings its result
// to f32.
Kernel converted_matrices(const std::vector<int64_t>& size, bool a_transposed, bool b_transposed,
                          DType a, DType b, DType sum, bool scaled = false) {
  KernelBuilder k;
  auto [m, n, depth] = std::tuple(size[0], size[1], size[2]);
  TensorId A = k.tensor("A", a, a_transposed ? Shape{depth, m} : Shape{m, depth});
  TensorId B = k.tensor("B", b, b_transposed ? Shape{n, depth} : Shape{depth, n});
  TensorId C = k.tensor("C", sum, {m, n}), scale = k.tensor("scale", DType::f32, {n});
  TensorId D = k.tensor("D", DType::f32, {m, n});
  KernelStage& main =
      k.stage(C, Aggregation::sum, sum,
              {{{"i", "j", "k"},
                size,
                2,
                {"i", "j"},
                {{A, a_transposed ? Names{"k", "i"} : Names{"i", "k"}},
                 {B, b_transposed ? Names{"j", "k"} : Names{"k", "j"}}},
                {},
                [&](Body& body, const std::vector<NodeId>& l) {
                  return body.operation(Op::mul, {body.cast(l[0], sum), body.cast(l[1], sum)}, sum);
                }}});
  if (!scaled) return k.finish();
  main.residence = Residence::registers;
  k.stage(D, Aggregation::assign, DType::f32,
          {{{"i", "j"},
            {m, n},
            2,
            {"i", "j"},
            {{C, {"i", "j"}}, {scale, {"j"}}},
            {},
            [](Body& body, const std::vector<NodeId>& l) {
              return body.operation(Op::mul, {body.cast(l[0], DType::f32), l[1]}, DType::f32);
            }}})
      .attach = StageId(0);
  return k.finish();
}

TEST_F(TensorCoreCode, BytesByWgmma) {
  for (auto [a, b, types] : {std::tuple{DType::i8, DType::i8, "k32.s32.s8.s8 "},
                             {DType::u8, DType::i8, "k32.s32.u8.s8 "},
                             {DType::i8, DType::u8, "k32.s32.s8.u8 "},
                             {DType::u8, DType::u8, "k32.s32.u8.u8 "}}) {
    expect_compiles(converted_matrices({1000, 1032, 1040}, false, true, a, b, DType::i32),
                    h200_target(), 2, types);
  }
  // Tiles of every size, whole or in parts.
  expect_compiles(
      converted_matrices({4096, 4096, 4096}, false, true, DType::i8, DType::i8, DType::i32),
      h200_target(), 9, "s32.s8.s8 ");
  expect_compiles(
      converted_matrices({1536, 1536, 16384}, false, true, DType::u8, DType::u8, DType::u32),
      h200_target(), 7, "s32.u8.u8 ");
  expect_compiles(
      converted_matrices({256, 256, 16384}, false, true, DType::u8, DType::i8, DType::u32),
      h200_target(), 7, "s32.u8.s8 ");
  expect_compiles(
      converted_matrices({2048, 2048, 2048}, false, true, DType::u8, DType::i8, DType::i32, true),
      h200_target(), 3, "s32.u8.s8 ");
}

TEST_F(TensorCoreCode, BytesByMmaOfEveryLayout) {
  for (int layout = 0; layout < 4; ++layout) {
    bool a = layout % 2 != 0, b = layout / 2 != 0;
    expect_compiles(
        converted_matrices({1024, 1024, 1024}, a, b, DType::i8, DType::u8, DType::i32, a),
        a100_target(), 4, "mma_s8_u8(sum");
    expect_compiles(converted_matrices({333, 65, 47}, a, b, DType::u8, DType::u8, DType::i32, b),
                    h200_target(), 1, "mma_u8_u8(sum");
  }
}

TEST_F(TensorCoreCode, DoublesByMmaOfEveryLayout) {
  for (int layout = 0; layout < 4; ++layout) {
    bool a = layout % 2 != 0, b = layout / 2 != 0;
    for (const Target& target : {h200_target(), a100_target()}) {
      expect_compiles(
          converted_matrices({1024, 1024, 1024}, a, b, DType::f64, DType::f64, DType::f64, a),
          target, 1, "mma_f64(sum");  // of the next ones some spill, and are passed over
      expect_compiles(
          converted_matrices({333, 65, 47}, a, b, DType::f64, DType::f64, DType::f64, b), target, 1,
          "mma_f64(sum");
    }
  }
}

TEST_F(TensorCoreCode, ThreadsCopyForMma) {
  expect_compiles(matrices(1000, 1000, 999, false, false, DType::bf16), h200_target(), 2,
                  "mma.sync");
  expect_compiles(matrices(1024, 1024, 1024, true, true, DType::f16), a100_target(), 4, "mma.sync");
  expect_compiles(matrices(333, 65, 47, false, true, DType::f16, true), a100_target(), 2,
                  "mma.sync");
}

}  // namespace
}  // namespace tile::testing
