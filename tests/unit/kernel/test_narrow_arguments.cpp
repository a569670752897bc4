// Arguments that begin where a kernel begins to read.
#include <gtest/gtest.h>

#include "core/kernel/alike.h"
#include "core/kernel/canonical.h"
#include "core/kernel/narrow_arguments.h"
#include "tests/support/schedule_kernels.h"

namespace tile {
namespace {

using testing::KernelBuilder;

// R[i, j] = X at these indices of [9, 4, 32] floats, with a second load for the second list.
Kernel reading(const std::vector<std::string>& index, const std::vector<std::string>& other = {},
               int64_t rows = 4, int64_t columns = 32) {
  KernelBuilder b;
  TensorId x = b.tensor("X", DType::f32, {9, 4, columns});
  TensorId r = b.tensor("R", DType::f32, {rows, columns});
  KernelBuilder::PieceText piece;
  piece.iterators = {"i", "j"};
  piece.box = {rows, columns};
  piece.parallel_dims = 2;
  piece.store = {"i", "j"};
  piece.loads = {{x, index}};
  if (!other.empty()) piece.loads.emplace_back(x, other);
  piece.body = [](Body& body, const std::vector<NodeId>& loads) {
    NodeId sum = loads[0];
    for (size_t l = 1; l < loads.size(); ++l) {
      sum = body.operation(Op::add, {sum, loads[l]}, DType::f32);
    }
    return sum;
  };
  b.stage(r, Aggregation::assign, DType::f32, {piece});
  return b.finish();
}
constexpr TensorId kX{0};

Kernel narrowed(Kernel kernel) {
  narrow_arguments(kernel);
  verify(kernel);
  return kernel;
}

TEST(NarrowArguments, StepsAreOneKernel) {
  Kernel first = narrowed(reading({"0", "i", "j"})), last = narrowed(reading({"8", "i", "j"}));
  EXPECT_TRUE(alike(first, last));
  EXPECT_EQ(print(canonical(first)), print(canonical(last)));
  EXPECT_FALSE(alike(reading({"0", "i", "j"}), reading({"8", "i", "j"})));
  EXPECT_EQ(first.begins[kX], 0);
  EXPECT_EQ(last.begins[kX], 8 * 4 * 32);
  EXPECT_EQ(last.tensors[kX].shape, (Shape{1, 4, 32}));
}

TEST(NarrowArguments, NeighboursOfAStepKeepTheirDistance) {
  Kernel two = narrowed(reading({"3", "i", "j"}, {"4", "i", "j"}));
  EXPECT_EQ(two.begins[kX], 3 * 4 * 32);
  EXPECT_EQ(two.tensors[kX].shape, (Shape{2, 4, 32}));
  EXPECT_TRUE(alike(two, narrowed(reading({"6", "i", "j"}, {"7", "i", "j"}))));
  EXPECT_FALSE(alike(two, narrowed(reading({"6", "i", "j"}, {"8", "i", "j"}))));
}

TEST(NarrowArguments, InnerLiteralsAndRangesBegin) {
  Kernel row = narrowed(reading({"2", "1", "j"}));
  EXPECT_EQ(row.begins[kX], (2 * 4 + 1) * 32);
  EXPECT_EQ(row.tensors[kX].shape, (Shape{1, 1, 32}));
  Kernel range = narrowed(reading({"i + 5", "1", "j"}));
  EXPECT_EQ(range.begins[kX], 5 * 4 * 32);
  EXPECT_EQ(range.tensors[kX].shape, (Shape{4, 4, 32})) << "a place of an inner dimension stays";
  EXPECT_TRUE(narrowed(reading({"i", "1", "j"})).begins.empty()) << "all of it";
}

TEST(NarrowArguments, PartsAreAligned) {
  // 4 * 5 floats are no multiple of a cache line.
  EXPECT_TRUE(narrowed(reading({"3", "i", "j"}, {}, 4, 5)).begins.empty());
  EXPECT_EQ(narrowed(reading({"4", "i", "j"}, {}, 4, 5)).begins[kX], 4 * 4 * 5);
}

TEST(NarrowArguments, StridedPackedAndFillingTensorsStayWhole) {
  Kernel kernel = reading({"8", "i", "j"});
  narrow_arguments(kernel, [](TensorId) { return false; });
  EXPECT_TRUE(kernel.begins.empty());
  kernel.tensors.edit(kX).fixed = true;
  EXPECT_TRUE(narrowed(kernel).begins.empty());
}

TEST(NarrowArguments, TextKeepsWherePartsBegin) {
  Kernel kernel = narrowed(reading({"8", "i", "j"}));
  std::string text = print(kernel);
  EXPECT_NE(text.find("begins 0 1024"), std::string::npos) << text;
  EXPECT_EQ(print(parse_kernel(std::make_shared<const Source>(Source{"kernel", text}))), text);
}

}  // namespace
}  // namespace tile
