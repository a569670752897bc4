// Classes and roles come from the accesses alone.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

PieceClass class_of(const Kernel& kernel) {
  const Contraction& c = kernel.stages[0].contraction;
  return classify(c.pieces[0], c, kernel.tensors);
}
KernelClass kind_of(const Kernel& kernel) { return class_of(kernel).kind; }

NodeId product(Body& b, const std::vector<NodeId>& l) {
  return b.operation(Op::mul, {l[0], l[1]}, DType::f32);
}

TEST(Classify, EachClass) {
  EXPECT_EQ(kind_of(matrix_product(4, 5, 6)), KernelClass::matrix);
  EXPECT_EQ(kind_of(convolution(2, 6, 3, 4, 3, 1, 1)), KernelClass::windowed);
  EXPECT_EQ(kind_of(depthwise(9, 4, 3)), KernelClass::windowed);
  EXPECT_EQ(kind_of(max_pool(8, 4, 3, 2, 1)), KernelClass::windowed);
  EXPECT_EQ(kind_of(row_sum(4, 9, false)), KernelClass::reduction);
  EXPECT_EQ(kind_of(prefix_sum(9)), KernelClass::scan);
  EXPECT_EQ(kind_of(scaled_copy({3, 4})), KernelClass::pointwise);
  EXPECT_EQ(kind_of(transpose(3, 4)), KernelClass::copy);
}

TEST(Classify, RolesOfAMatrixProduct) {
  std::vector<Role> roles = {Role::m, Role::n, Role::k};
  EXPECT_EQ(class_of(matrix_product(4, 5, 6)).roles, roles);
}

TEST(Classify, RolesOfAConvolution) {
  std::vector<Role> roles = {Role::m,      Role::m,      Role::m, Role::n,
                             Role::window, Role::window, Role::k};
  EXPECT_EQ(class_of(convolution(2, 6, 3, 4, 3, 1, 1)).roles, roles);
}

// A batched product with its dimensions in any order, its indices split, or the batch moved.
Kernel batched(const std::vector<std::string>& a, const std::vector<std::string>& b,
               const std::vector<std::string>& c, const std::vector<std::string>& iterators) {
  KernelBuilder k;
  std::map<std::string, int64_t> extent = {{"b", 3}, {"m", 4}, {"n", 5}, {"k", 6}, {"k1", 2}};
  auto shape = [&](const std::vector<std::string>& names) {
    Shape s;
    for (const std::string& n : names) s.push_back(extent[n]);
    return s;
  };
  TensorId A = k.tensor("A", DType::f32, shape(a)), B = k.tensor("B", DType::f32, shape(b));
  TensorId C = k.tensor("C", DType::f32, shape(c));
  k.stage(C, Aggregation::sum, DType::f32,
          {{iterators, shape(iterators), c.size(), c, {{A, a}, {B, b}}, {}, product}});
  return k.finish();
}

TEST(Classify, OrderOfDimensionsDoesNotMatter) {
  std::vector<std::string> a = {"b", "m", "k"};
  std::sort(a.begin(), a.end());
  do {
    Kernel k = batched(a, {"n", "b", "k"}, {"b", "m", "n"}, {"b", "m", "n", "k"});
    EXPECT_EQ(kind_of(k), KernelClass::matrix);
    std::vector<Role> roles = {Role::batch, Role::m, Role::n, Role::k};
    EXPECT_EQ(class_of(k).roles, roles);
  } while (std::next_permutation(a.begin(), a.end()));
  EXPECT_EQ(
      kind_of(batched({"m", "k", "b"}, {"k", "b", "n"}, {"m", "n", "b"}, {"m", "n", "b", "k"})),
      KernelClass::matrix);
}

TEST(Classify, SplitIndicesDoNotMatter) {
  Kernel k = batched({"b", "m", "k", "k1"}, {"k", "k1", "b", "n"}, {"b", "m", "n"},
                     {"b", "m", "n", "k", "k1"});
  EXPECT_EQ(kind_of(k), KernelClass::matrix);
  KernelBuilder split;
  TensorId A = split.tensor("A", DType::f32, {4, 12}), B = split.tensor("B", DType::f32, {12, 5});
  TensorId C = split.tensor("C", DType::f32, {4, 5});
  split.stage(C, Aggregation::sum, DType::f32,
              {{{"m1", "m0", "n", "k1", "k0"},
                {2, 2, 5, 3, 4},
                3,
                {"2*m1 + m0", "n"},
                {{A, {"2*m1 + m0", "4*k1 + k0"}}, {B, {"4*k1 + k0", "n"}}},
                {},
                product}});
  Kernel halves = split.finish();
  EXPECT_EQ(kind_of(halves), KernelClass::matrix);
  std::vector<Role> roles = {Role::m, Role::m, Role::n, Role::k, Role::k};
  EXPECT_EQ(class_of(halves).roles, roles);
}

}  // namespace
}  // namespace tile::testing
