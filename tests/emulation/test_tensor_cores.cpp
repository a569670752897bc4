// Products by mma (sm_80 up), printed, run on the host with its fragments emulated and compared
// with brute force: every type and layout of factors, sizes that no tile divides, lines that begin
// at any byte.
#include <gtest/gtest.h>

#include <random>

#include "core/schedule/legality/legality.h"
#include "core/schedule/space/tensor_core_gemm_space.h"
#include "tests/emulation/versions.h"
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

// The best schedules of each kernel; with sums of each in parts too.
void expect_products(const std::vector<Kernel>& kernels, const Target& target, size_t count = 1) {
  std::vector<std::pair<const Kernel*, Schedule>> versions;
  for (const Kernel& k : kernels) {
    std::vector<Schedule> all = tensor_cores::schedules(k, target, count);
    ASSERT_FALSE(all.empty()) << print(k);
    for (Schedule& s : all) versions.emplace_back(&k, s);
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
  for (DType type : {DType::f16, DType::bf16}) {
    Factors f{type, type, DType::f32};
    expect_products(every_layout({{'m', 72}, {'n', 40}, {'k', 72}}, f), a100_target());
    expect_products(every_layout({{'m', 70}, {'n', 37}, {'k', 45}}, f), a100_target());
  }
  Factors f{DType::f32, DType::f32, DType::f32};
  for (Precision precision : {Precision::tf32, Precision::tf32x3}) {
    Target target = a100_target();
    target.precision = precision;
    expect_products(every_layout({{'m', 70}, {'n', 37}, {'k', 45}}, f), target);
  }
}

TEST(EmulatedTensorCores, Bytes) {
  for (const Factors& f : {Factors{DType::i8, DType::i8, DType::i32},
                           {DType::i8, DType::u8, DType::i32},
                           {DType::u8, DType::i8, DType::u32},
                           {DType::u8, DType::u8, DType::i32}}) {
    expect_products(every_layout({{'m', 80}, {'n', 48}, {'k', 144}}, f), a100_target());
    expect_products(every_layout({{'m', 70}, {'n', 37}, {'k', 45}}, f), a100_target());
  }
}

TEST(EmulatedTensorCores, BytesOfEveryTile) {
  Factors f{DType::u8, DType::i8, DType::i32};
  std::vector<Kernel> kernels = every_layout({{'m', 136}, {'n', 132}, {'k', 84}}, f);
  kernels.push_back(product("mk", "kn", {{'m', 136}, {'n', 136}, {'k', 68}}, f, DType::i8));
  expect_products(kernels, a100_target(), 4);
}

TEST(EmulatedTensorCores, Doubles) {
  Factors f{DType::f64, DType::f64, DType::f64};
  expect_products(every_layout({{'m', 72}, {'n', 40}, {'k', 72}}, f), a100_target());
  expect_products(every_layout({{'m', 70}, {'n', 37}, {'k', 45}}, f), h200_target());
  expect_products({product("mk", "kn", {{'m', 130}, {'n', 133}, {'k', 33}}, f)}, h200_target(), 4);
}

}  // namespace
}  // namespace tile::testing
