// Which windows fall apart, and which are the same.
#include <gtest/gtest.h>

#include "core/kernel/forms/window_report.h"
#include "tests/support/schedule_kernels.h"

namespace tile::testing {
namespace {

using Groups = std::vector<std::vector<size_t>>;
using Loads = std::vector<std::pair<TensorId, std::vector<std::string>>>;

NodeId product(Body& b, const std::vector<NodeId>& l) {
  NodeId all = l[0];
  for (size_t i = 1; i < l.size(); ++i) all = b.operation(Op::mul, {all, l[i]}, DType::f32);
  return all;
}
NodeId sum(Body& b, const std::vector<NodeId>& l) {
  return b.operation(Op::add, {l[0], l[1]}, DType::f32);
}

// A window of 3 x 5 over a picture of rows y and columns x: iterators y, x, r, s are 0 … 3.
Piece window(const std::vector<std::vector<std::string>>& loads, decltype(&product) body = product,
             std::vector<std::tuple<std::string, int64_t, int64_t>> constraints = {}) {
  KernelBuilder k;
  Loads all;
  for (const std::vector<std::string>& index : loads) {
    all.push_back(
        {k.tensor("T" + std::to_string(all.size()), DType::f32, Shape(index.size(), 32)), index});
  }
  TensorId out = k.tensor("O", DType::f32, {8, 8});
  k.stage(out, Aggregation::sum, DType::f32,
          {{{"y", "x", "r", "s"}, {8, 8, 3, 5}, 2, {"y", "x"}, all, std::move(constraints), body}});
  return k.finish().stages[0].contraction.pieces[0];
}
Groups groups(const Piece& piece, Aggregation a = Aggregation::sum) {
  return separable_window(piece, a);
}
const Groups kSeparable = {{2}, {3}}, kNot;

TEST(WindowReport, SeparableWindows) {
  const std::vector<std::string> picture = {"y + r", "x + s"};
  EXPECT_EQ(groups(window({picture})), kSeparable);
  EXPECT_EQ(groups(window({picture}), Aggregation::max), kSeparable);
  EXPECT_EQ(groups(window({picture, {"r"}, {"s"}})), kSeparable);
  EXPECT_EQ(groups(window({{"2*y - r + 5", "x + 3*s"}, {"y", "r"}})), kSeparable);
  EXPECT_EQ(groups(window({picture}, product, {{"y + r", 1, 9}, {"x + s", 1, 9}})), kSeparable);
  EXPECT_EQ(groups(window({picture, {"y", "x"}})), kSeparable);
}

TEST(WindowReport, WindowsThatAreNotSeparable) {
  const std::vector<std::string> picture = {"y + r", "x + s"};
  EXPECT_EQ(groups(window({picture, {"r", "s"}})), kNot);
  EXPECT_EQ(groups(window({picture, {"r + s"}})), kNot);
  EXPECT_EQ(groups(window({{"y + r + s", "x"}})), kNot);
  // What the inner window would have to know of the outer one's position.
  EXPECT_EQ(groups(window({picture, {"x", "r"}, {"y", "s"}})), kNot);
  EXPECT_EQ(groups(window({picture}, product, {{"r + s", 0, 5}})), kNot);
  EXPECT_EQ(groups(window({picture, {"r"}}, sum)), kNot);
  // A maximum of products is no product of maxima where weights are negative.
  EXPECT_EQ(groups(window({picture, {"r"}, {"s"}}), Aggregation::max), kNot);
  EXPECT_EQ(groups(window({{"y", "x"}})), kNot);
}

TEST(WindowReport, FormsOfWindows) {
  Piece a = window({{"y + r", "x + s"}});
  ASSERT_TRUE(sliding_window(a));
  EXPECT_EQ(sliding_window(a)->form, sliding_window(window({{"r + y", "s + x"}, {"r"}}))->form);
  EXPECT_NE(sliding_window(a)->form, sliding_window(window({{"y + 2*r", "x + s"}}))->form);
  EXPECT_NE(sliding_window(a)->form, sliding_window(window({{"y + s", "x + r"}}))->form);
  EXPECT_FALSE(sliding_window(window({{"y", "x"}})));
  EXPECT_FALSE(sliding_window(window({{"y + r", "x"}, {"y", "x + s"}})));
}

}  // namespace
}  // namespace tile::testing
