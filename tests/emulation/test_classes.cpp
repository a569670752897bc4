// Issue 5, item 4: kernels of each SIMT class, printed, run on the host and compared with brute
// force, under the analytic pick, its best competitors and random schedules.
#include <gtest/gtest.h>

#include "core/kernel/schedule.h"
#include "core/schedule/legality/legality.h"
#include "core/schedule/space/candidates.h"
#include "tests/emulation/versions.h"
#include "tests/support/random_schedule.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

// The analytic pick, its best competitors and random schedules.
void expect_class(const std::vector<Kernel>& kernels, size_t competitors, uint64_t randoms) {
  Target target = h200_target();
  std::vector<std::pair<const Kernel*, Schedule>> versions;
  for (const Kernel& k : kernels) {
    std::vector<Schedule> list = candidates(k, target, 1 + competitors);
    for (uint64_t seed = 1; seed <= randoms; ++seed)
      list.push_back(random_schedule(k, target, seed));
    // Of tensor cores see test_tensor_cores.cpp.
    std::erase_if(
        list, [](const Schedule& s) { return s.stages[0][0].form<TensorCoreGemm>() != nullptr; });
    EXPECT_FALSE(list.empty());
    for (Schedule& s : list) versions.emplace_back(&k, std::move(s));
  }
  expect_versions(versions);
}

// C[m, n] = sum of A B, whose dimensions stand in the given order.
Kernel ordered_product(const std::string& a, const std::string& b) {
  KernelBuilder builder;
  auto tensor = [&](const char* name, const std::string& order) {
    Shape shape;
    for (char d : order) shape.push_back(d == 'm' ? 36 : d == 'n' ? 68 : 51);
    return builder.tensor(name, DType::f32, shape);
  };
  auto index = [](const std::string& order) {
    std::vector<std::string> list;
    for (char d : order) list.emplace_back(1, d);
    return list;
  };
  TensorId x = tensor("A", a), y = tensor("B", b), z = tensor("C", "mn");
  builder.stage(z, Aggregation::sum, DType::f32,
                {{{"m", "n", "k"},
                  {36, 68, 51},
                  2,
                  {"m", "n"},
                  {{x, index(a)}, {y, index(b)}},
                  {},
                  [](Body& body, const std::vector<NodeId>& loads) {
                    return body.operation(Op::mul, {loads[0], loads[1]}, DType::f32);
                  }}});
  return builder.finish();
}

TEST(EmulatedClasses, Pointwise) {
  expect_class({scaled_copy({7, 9, 3}), scaled_copy({5000}), scaled_copy({33, 64}),
                transpose(33, 130), transpose(70, 45), transpose(64, 96)},
               3, 3);
}

TEST(EmulatedClasses, Reductions) {
  expect_class({row_sum(13, 300, false), row_sum(40, 128, false), row_sum(50, 64, true),
                row_sum(1, 5000, false), max_pool(20, 12, 3, 2, 1)},
               4, 4);
}

TEST(EmulatedClasses, Products) {
  expect_class({matrix_product(64, 96, 80), matrix_product(33, 41, 50),
                matrix_product(40, 36, 24, DType::bf16), matrix_bias_gelu(40, 44, 32)},
               3, 3);
}

// Tiles that are copied ahead, with terms read ahead or not, where both factors, one or none lie as
// their tiles do, of sizes that tiles and accesses of four divide or not.
TEST(EmulatedClasses, ProductsStagedAhead) {
  std::vector<Kernel> kernels{matrix_product(64, 96, 80), matrix_product(33, 41, 50),
                              matrix_product(36, 44, 8), matrix_product(40, 36, 132),
                              convolution(2, 11, 8, 8, 3, 2, 1)};
  for (const char* a : {"mk", "km"}) {
    for (const char* b : {"kn", "nk"}) kernels.push_back(ordered_product(a, b));
  }
  std::vector<std::pair<const Kernel*, Schedule>> versions;
  for (const Kernel& k : kernels) {
    for (SimtGemm g :
         {SimtGemm{32, 64, 16, 8, 4, 1, 3, false}, SimtGemm{32, 64, 8, 8, 4, 1, 4, true},
          SimtGemm{64, 32, 16, 4, 4, 3, 3, true}, SimtGemm{64, 32, 16, 4, 4, 2, 2, true}}) {
      Schedule s;
      s.stages = {{PieceSchedule{}}};
      s.stages[0][0].gpu_form = g;
      if (illegal(s, k, h200_target()).empty()) versions.emplace_back(&k, std::move(s));
    }
  }
  EXPECT_EQ(versions.size(), 8U * 4U + 1U);
  expect_versions(versions);
}

TEST(EmulatedClasses, Convolutions) {
  expect_class({convolution(1, 9, 8, 16, 3, 1, 1), convolution(2, 11, 3, 8, 5, 2, 2),
                convolution(1, 7, 16, 12, 1, 1, 0)},
               3, 3);
}

TEST(EmulatedClasses, Scans) {
  expect_class({prefix_sum(100), prefix_sum(1), prefix_sum(257), prefix_sum(600)}, 3, 3);
}

}  // namespace
}  // namespace tile::testing
