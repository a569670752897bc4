// Products by mma (sm_80 up), printed, run on the host with its fragments emulated and compared
// with brute force: every type and layout of factors, sizes that no tile divides, lines that begin
// at any byte.
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "core/schedule/legality/legality.h"
#include "core/schedule/space/tensor_core_gemm_space.h"
#include "tests/emulation/versions.h"
#include "tests/support/narrow_filter_gradient.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

using Names = std::vector<std::string>;

struct Factors {
  DType a, b, sum;
};

// C[m, n] of type `stored`, the sum of the products of A and B, whose dimensions stand in the given
// orders.
Kernel product(const std::string& a, const std::string& b, const std::map<char, int64_t>& size,
               const Factors& f, DType stored = DType::none) {
  KernelBuilder builder;
  auto tensor = [&](const char* name, DType type, const std::string& order) {
    Shape shape;
    for (char d : order) shape.push_back(size.at(d));
    return builder.tensor(name, type, shape);
  };
  auto index = [](const std::string& order) {
    Names list;
    for (char d : order) list.emplace_back(1, d);
    return list;
  };
  TensorId x = tensor("A", f.a, a), y = tensor("B", f.b, b);
  TensorId z = tensor("C", stored == DType::none ? f.sum : stored, "mn");
  builder.stage(z, Aggregation::sum, f.sum,
                {{{"m", "n", "k"},
                  {size.at('m'), size.at('n'), size.at('k')},
                  2,
                  {"m", "n"},
                  {{x, index(a)}, {y, index(b)}},
                  {},
                  [&](Body& body, const std::vector<NodeId>& l) {
                    return body.operation(Op::mul, {body.cast(l[0], f.sum), body.cast(l[1], f.sum)},
                                          f.sum);
                  }}});
  return builder.finish();
}

// Every value of a byte.
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

// The best schedules of each kernel; of the first one with its sums in parts too.
void expect_products(const std::vector<Kernel>& kernels, const Target& target, size_t count = 1) {
  std::vector<std::pair<const Kernel*, Schedule>> versions;
  for (const Kernel& k : kernels) {
    std::vector<Schedule> all = tensor_cores::schedules(k, target, count);
    ASSERT_FALSE(all.empty()) << print(k);
    for (Schedule& s : all) versions.emplace_back(&k, s);
    if (&k != &kernels[0]) continue;
    all[0].stages[0][0].form<TensorCoreGemm>()->split = 2;
    if (illegal(all[0], k, target).empty()) versions.emplace_back(&k, all[0]);
  }
  expect_versions(versions, target, all_values);
}

std::vector<Kernel> every_layout(const std::map<char, int64_t>& size, const Factors& f) {
  std::vector<Kernel> kernels;
  for (const char* a : {"mk", "km"}) {
    for (const char* b : {"kn", "nk"}) kernels.push_back(product(a, b, size, f));
  }
  return kernels;
}

TEST(EmulatedTensorCores, Reals) {
  std::vector<Kernel> kernels =
      every_layout({{'m', 72}, {'n', 40}, {'k', 40}}, {DType::bf16, DType::bf16, DType::f32});
  for (const char* b : {"kn", "nk"}) {
    kernels.push_back(
        product("mk", b, {{'m', 70}, {'n', 37}, {'k', 45}}, {DType::f16, DType::f16, DType::f32}));
  }
  expect_products(kernels, a100_target());
  for (Precision precision : {Precision::tf32, Precision::tf32x3}) {
    Target target = a100_target();
    target.precision = precision;
    expect_products(
        every_layout({{'m', 70}, {'n', 37}, {'k', 21}}, {DType::f32, DType::f32, DType::f32}),
        target);
  }
}

TEST(EmulatedTensorCores, Bytes) {
  std::vector<Kernel> kernels;
  auto add = [&](const std::map<char, int64_t>& size, const Factors& f) {
    for (Kernel& k : every_layout(size, f)) kernels.push_back(std::move(k));
  };
  add({{'m', 80}, {'n', 48}, {'k', 144}}, {DType::i8, DType::i8, DType::i32});
  add({{'m', 70}, {'n', 37}, {'k', 45}}, {DType::i8, DType::u8, DType::i32});
  add({{'m', 68}, {'n', 36}, {'k', 52}}, {DType::u8, DType::i8, DType::u32});
  add({{'m', 66}, {'n', 34}, {'k', 46}}, {DType::u8, DType::u8, DType::i32});
  kernels.push_back(product("mk", "kn", {{'m', 40}, {'n', 72}, {'k', 36}},
                            {DType::i8, DType::i8, DType::i32}, DType::i8));
  expect_products(kernels, a100_target());
}

TEST(EmulatedTensorCores, BytesOfLargeTiles) {
  Factors f{DType::u8, DType::i8, DType::i32};
  expect_products({product("mk", "kn", {{'m', 136}, {'n', 132}, {'k', 70}}, f),
                   product("km", "nk", {{'m', 128}, {'n', 128}, {'k', 64}}, f)},
                  a100_target(), 2);
}

TEST(EmulatedTensorCores, FloatsOfEightBits) {
  std::vector<Kernel> kernels;
  auto add = [&](const std::map<char, int64_t>& size, DType a, DType b) {
    for (Kernel& k : every_layout(size, {a, b, DType::f32})) kernels.push_back(std::move(k));
  };
  add({{'m', 80}, {'n', 48}, {'k', 144}}, DType::f8e4m3, DType::f8e4m3);
  add({{'m', 70}, {'n', 37}, {'k', 45}}, DType::f8e4m3, DType::f8e5m2);
  add({{'m', 68}, {'n', 36}, {'k', 52}}, DType::f8e5m2, DType::f8e5m2);
  expect_products(kernels, h200_target());
}

// The sums are f32's only if factors are widened: each of 256 values, NaN and infinities among
// them, times one.
TEST(EmulatedTensorCores, EveryFloatOfEightBits) {
  auto every_value = [](const Kernel& kernel, uint64_t) {
    Values values = small_integers(kernel, 1);
    for (HostTensor& t : values) {
      for (int64_t i = 0; i < t.count(); ++i) t.set(i, integer_scalar(0, t.type));
    }
    for (int64_t i = 0; i < 256; ++i) values[0].bytes[static_cast<size_t>(i * 16)] = std::byte(i);
    for (int64_t i = 0; i < 16; ++i) values[1].set(i, integer_scalar(1, values[1].type));
    return values;
  };
  for (DType type : {DType::f8e4m3, DType::f8e5m2}) {
    Kernel k = product("mk", "kn", {{'m', 256}, {'n', 16}, {'k', 16}}, {type, type, DType::f32});
    std::vector<Schedule> all = tensor_cores::schedules(k, h200_target(), 1);
    ASSERT_FALSE(all.empty());
    std::vector<std::pair<const Kernel*, Schedule>> best{{&k, all[0]}};
    expect_versions(best, h200_target(), every_value);
  }
}

// On Hopper the warpgroups multiply f8 as they are where sums may be short; both ways to compute.
TEST(EmulatedTensorCores, FloatsOfEightBitsForWarpgroups) {
  Kernel k = product("mk", "nk", {{'m', 512}, {'n', 512}, {'k', 512}},
                     {DType::f8e4m3, DType::f8e5m2, DType::f32});
  Target target = h200_target();
  auto of = [&](const Target& t) {
    const Contraction& c = k.stages[0].contraction;
    return tensor_cores::product_of(c.pieces[0], c, k, t, argument_layouts(k));
  };
  ASSERT_TRUE(of(target));
  EXPECT_FALSE(of(target)->bulk);
  target.precision = Precision::tf32;
  ASSERT_TRUE(of(target));
  EXPECT_TRUE(of(target)->bulk && of(target)->short_sums);
  target.features = "sm_80";
  target.gpu.capability = 80;
  EXPECT_FALSE(of(target));
}

TEST(EmulatedTensorCores, Doubles) {
  Factors f{DType::f64, DType::f64, DType::f64};
  expect_products(every_layout({{'m', 72}, {'n', 40}, {'k', 36}}, f), a100_target());
  expect_products({product("mk", "nk", {{'m', 70}, {'n', 37}, {'k', 21}}, f),
                   product("km", "kn", {{'m', 130}, {'n', 133}, {'k', 17}}, f)},
                  h200_target());
}

// A step's terms are a box over three reductions: gradients of filters.
TEST(EmulatedTensorCores, StepsOverSeveralReductions) {
  Target target = a100_target();
  target.strict_skip = false;
  expect_products({filter_gradient({3, 6, 7, 37, 40}), filter_gradient({3, 9, 10, 40, 37}),
                   filter_gradient({2, 6, 9, 40, 64, 3, 2}),
                   filter_gradient({1, 12, 9, 64, 40, 2, 1, 2, 1, DType::f16})},
                  target);
}

// How the lines of a factor lie in memory, in elements from one to the next beyond their own count;
// nullopt: all lines are the same memory.
struct StridedFactors {
  const char *a, *b;  // the orders of dimensions
  std::optional<int64_t> a_gap, b_gap;
};

// Gaps of an odd and of an even number of elements, and of whole 16 bytes.
std::vector<StridedFactors> strided_factors(const std::map<char, int64_t>& size,
                                            int64_t elements_of_16_bytes) {
  auto up_to = [&](char inner, int64_t multiple) {  // the gap that makes such a distance
    return multiple - size.at(inner) % multiple;
  };
  int64_t whole = elements_of_16_bytes;
  auto odd = [&](char inner) { return 1 + (size.at(inner)) % 2; };
  return {{"mk", "kn", odd('k'), std::nullopt},
          {"mk", "nk", std::nullopt, odd('k')},
          {"km", "kn", std::nullopt, up_to('n', whole)},
          {"km", "nk", up_to('m', 2), std::nullopt},
          {"mk", "kn", std::nullopt, std::nullopt},
          {"mk", "nk", up_to('k', whole), up_to('k', whole)},
          {"km", "kn", up_to('m', 4), odd('n')}};
}

void expect_strided_products(const Factors& f, const Target& target) {
  const std::map<char, int64_t> size = {{'m', 70}, {'n', 37}, {'k', 21}};
  std::vector<StridedFactors> all =
      strided_factors(size, 16 / static_cast<int64_t>(byte_size(f.a)));
  std::vector<Kernel> kernels;
  for (const StridedFactors& s : all) kernels.push_back(product(s.a, s.b, size, f));
  std::vector<StridedVersion> versions;
  for (size_t i = 0; i < all.size(); ++i) {
    auto strides = [&](const std::string& order, std::optional<int64_t> gap) {
      return std::vector<int64_t>{gap ? size.at(order[1]) + *gap : 0, 1};
    };
    const Contraction& c = kernels[i].stages[0].contraction;
    Strides of_all(kernels[i].tensors.size());
    of_all[c.pieces[0].loads[0].tensor] = strides(all[i].a, all[i].a_gap);
    of_all[c.pieces[0].loads[1].tensor] = strides(all[i].b, all[i].b_gap);
    ArgumentLayouts layouts = argument_layouts(kernels[i], of_all);
    std::optional<tensor_cores::Product> found =
        tensor_cores::product_of(c.pieces[0], c, kernels[i], target, layouts);
    ASSERT_TRUE(found) << print(kernels[i]);
    if (found->bulk) continue;  // wgmma is not emulated
    std::vector<Schedule> best = tensor_cores::schedules(kernels[i], target, 1, of_all);
    ASSERT_EQ(best.size(), 1U) << print(kernels[i]);
    versions.push_back({&kernels[i], best[0], of_all});
  }
  expect_versions(versions, target, all_values);
}

// Lines that are not neighbours in memory, at any multiple of an element, and one line that is all
// of them: of elements of every size.
TEST(EmulatedTensorCores, StridedFactors) {
  for (Target target : {a100_target(), h200_target()}) {
    expect_strided_products({DType::i8, DType::u8, DType::i32}, target);
    expect_strided_products({DType::bf16, DType::bf16, DType::f32}, target);
    expect_strided_products({DType::f64, DType::f64, DType::f64}, target);
    for (Precision precision : {Precision::tf32, Precision::tf32x3}) {
      target.precision = precision;
      expect_strided_products({DType::f32, DType::f32, DType::f32}, target);
    }
  }
}

}  // namespace
}  // namespace tile::testing
