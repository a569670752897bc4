// Builders of scalar bodies, grafting and tidying.
#include <gtest/gtest.h>

#include "core/ir/body.h"

namespace tile {
namespace {

TEST(Body, CastAddsNoNodeForTheSameType) {
  Body body;
  NodeId x = body.load(0, DType::f32);
  EXPECT_EQ(body.cast(x, DType::f32), x);
  NodeId wide = body.cast(x, DType::f64);
  EXPECT_EQ(body[wide].op, Op::cast);
  EXPECT_EQ(body[wide].type, DType::f64);
}

TEST(Body, TidiedMergesEqualNodesAndDropsUnusedOnes) {
  Body body;
  NodeId x = body.load(0);
  body.operation(Op::exp, {x});  // unused
  NodeId a = body.operation(Op::sin, {x}, DType::none, {3, 4});
  NodeId again = body.load(0, DType::none, {8, 9});
  NodeId b = body.operation(Op::sin, {again});
  body.results = {body.operation(Op::mul, {a, b}), x};
  Body out = tidied(body);
  ASSERT_EQ(out.nodes.size(), 3u);
  EXPECT_EQ(out[out.results[0]].args, (std::vector<NodeId>{1, 1}));
  EXPECT_EQ(out.results[1], 0);
  EXPECT_EQ(tidied(out).nodes.size(), 3u);
}

TEST(Body, TidiedKeepsWhatDiffers) {
  Body body;
  std::vector<NodeId> leaves = {body.real(0.0),
                                body.real(-0.0),
                                body.integer(0),
                                body.size(Expr(0)),
                                body.size(Expr::variable("N")),
                                body.index(0),
                                body.load(0),
                                body.load(1),
                                body.load(0, DType::f32)};
  body.results = leaves;
  EXPECT_EQ(tidied(body).nodes.size(), leaves.size());
}

TEST(Body, GraftMapsLoadsAndSharesNodes) {
  Body from;
  NodeId x = from.load(0), y = from.load(1);
  NodeId sum = from.operation(Op::add, {x, y});
  from.operation(Op::exp, {sum});  // not needed by the root
  NodeId root = from.operation(Op::mul, {sum, sum});
  Body body;
  NodeId value = body.real(2.5);
  NodeId copy = graft(body, from, root, [&](Body& to, const Node& node) -> NodeId {
    if (node.kind != NodeKind::load) return -1;
    return node.slot == 0 ? value : to.load(7);
  });
  ASSERT_EQ(body.nodes.size(), 4u);
  EXPECT_EQ(body[copy].args[0], body[copy].args[1]);
  EXPECT_EQ(body[body[copy].args[0]].args[0], value);
  EXPECT_EQ(body[body[body[copy].args[0]].args[1]].slot, 7);
}

}  // namespace
}  // namespace tile
