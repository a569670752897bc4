// Builders of scalar bodies, grafting and tidying.
#include <gtest/gtest.h>

#include "core/ir/analysis/evaluate_body.h"
#include "core/ir/body.h"
#include "core/ir/text.h"

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

TEST(Body, CastTakesBackWhatAFloatWasWidenedBy) {
  Body body;
  NodeId x = body.load(0, DType::bf16);
  NodeId wide = body.cast(x, DType::f32);
  EXPECT_EQ(body.cast(wide, DType::bf16), x);
  // f16 has not all numbers of bf16, and a narrowed number is another.
  EXPECT_EQ(body[body.cast(wide, DType::f16)].type, DType::f16);
  NodeId y = body.load(1, DType::f32);
  NodeId narrow = body.cast(y, DType::bf16);
  EXPECT_NE(body.cast(narrow, DType::f32), y);
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
  EXPECT_EQ(out[out.results[0]].args, (std::vector<NodeId>{NodeId(1), NodeId(1)}));
  EXPECT_EQ(out.results[1], NodeId(0));
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
    if (node.kind != NodeKind::load) return NodeId();
    return node.slot == 0 ? value : to.load(7);
  });
  ASSERT_EQ(body.nodes.size(), 4u);
  EXPECT_EQ(body[copy].args[0], body[copy].args[1]);
  EXPECT_EQ(body[body[copy].args[0]].args[0], value);
  EXPECT_EQ(body[body[body[copy].args[0]].args[1]].slot, 7);
}

// sum over k in [0, n) of x * k + captured, with `captured` given twice.
Body folded() {
  Body region;
  NodeId k = region.argument(0, DType::i64), total = region.argument(1, DType::f32);
  NodeId x = region.argument(2, DType::f32), same = region.argument(3, DType::f32);
  region.argument(4, DType::f32);
  NodeId product = region.operation(Op::mul, {x, region.cast(k, DType::f32)}, DType::f32);
  NodeId term = region.operation(Op::add, {product, same}, DType::f32);
  region.results = {region.operation(Op::add, {total, term}, DType::f32)};
  Body body;
  NodeId from = body.integer(0, DType::i64), to = body.integer(3, DType::i64);
  NodeId start = body.real(1, DType::f32), value = body.load(0, DType::f32);
  NodeId unused = body.load(1, DType::f32);
  Node fold;
  fold.kind = NodeKind::fold;
  fold.slot = 1;
  fold.args = {from, to, start, value, value, unused};
  fold.region = std::make_shared<const Body>(region);
  NodeId loop = body.add(fold);
  body.results = {body.component(loop, 0, DType::f32)};
  return body;
}

struct Twos final : Leaves {
  int iterations = 0;
  Scalar value(const Node& node) override { return integer_scalar(0, node.type); }
  bool load(const Node& node, std::span<const Scalar>, Scalar& element) override {
    element = real_scalar(2, node.type);
    return node.slot != 7;
  }
  void iterate(const Node&, int64_t) override { ++iterations; }
};

double value_of(const Body& body, Twos& leaves) {
  IdVector<NodeId, Scalar> values;
  EXPECT_TRUE(evaluate_body(body, leaves, values));
  return values[body.results[0]].f;
}

TEST(Fold, EvaluatesInOrder) {
  Twos leaves;
  verify_body(folded(), 2, 0, true);
  EXPECT_EQ(value_of(folded(), leaves), 1 + (0 + 2) + (2 + 2) + (4 + 2));
  EXPECT_EQ(leaves.iterations, 3);
}

TEST(Fold, AnEmptyRangeGivesTheStart) {
  Body body = folded();
  change_nodes(body, [](Node& n) {
    if (n.kind == NodeKind::integer && n.integer == 3) n.integer = -4;
  });
  Twos leaves;
  EXPECT_EQ(value_of(body, leaves), 1);
}

TEST(Fold, TidiedMergesCapturesAndDropsUnusedOnes) {
  Body out = tidied(folded());
  verify_body(out, 2, 0, true);
  const Node& fold = out[out[out.results[0]].args[0]];
  EXPECT_EQ(fold.args.size(), 4u);
  EXPECT_EQ(out.nodes.size(), 6u);
  Twos leaves;
  EXPECT_EQ(value_of(out, leaves), 13);
}

TEST(Fold, EqualLoopsAreOneNode) {
  Body body = folded(), two = body;
  Leaf keep = [](Body&, const Node&) { return NodeId{-1}; };
  NodeId again = graft(two, body, body.results[0], keep);
  two.results = {two.operation(Op::mul, {two.results[0], again}, DType::f32)};
  size_t folds = 0;
  visit_nodes(tidied(two), [&](const Node& n) { folds += n.kind == NodeKind::fold ? 1 : 0; });
  EXPECT_EQ(folds, 1u);
  change_nodes(two, [&](Node& n) {  // the regions of the second copy only
    if (n.kind == NodeKind::real) n.real += 1;
  });
  EXPECT_EQ(tidied(two).nodes.size(), tidied(body).nodes.size() + 1);
}

TEST(Fold, GraftAsksAboutRegions) {
  Body body = folded();
  Body out;
  NodeId root = graft(out, body, body.results[0], [](Body& to, const Node& n) -> NodeId {
    if (n.kind != NodeKind::argument || n.slot != 2) return NodeId();
    return to.real(10, DType::f32);
  });
  out.results = {root};
  Twos leaves;
  EXPECT_EQ(value_of(out, leaves), 1 + 3 * 2 + 10 * 3);
}

TEST(Fold, TextRoundTrips) {
  std::string text = print(folded());
  TextReader reader(std::make_shared<const Source>(Source{"body", text}));
  Body again = parse_body(reader);
  EXPECT_EQ(print(again), text);
  verify_body(again, 2, 0, true);
}

TEST(Fold, VerifierNamesWhatIsBroken) {
  auto rule = [](const std::function<void(Node&)>& damage) -> std::string {
    Body body = folded();
    change_nodes(body, damage);
    try {
      verify_body(body, 2, 0, true);
    } catch (const InternalError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(rule([](Node& n) {
              if (n.kind == NodeKind::argument && n.slot == 4) n.slot = 5;
            }),
            "body: an argument's slot");
  EXPECT_EQ(rule([](Node& n) {
              if (n.kind == NodeKind::argument && n.slot == 3) n.type = DType::f64;
            }),
            "body: an argument of another type");
  EXPECT_EQ(rule([](Node& n) {
              if (n.kind == NodeKind::fold) n.op = Op::add;
            }),
            "body: a combining fold reads what it carries");
  EXPECT_EQ(rule([](Node& n) {
              if (n.kind == NodeKind::fold) n.op = Op::sub;
            }),
            "body: a fold's operation");
  EXPECT_EQ(rule([](Node& n) {
              if (n.kind == NodeKind::component) n.slot = 1;
            }),
            "body: a component's slot");
}

}  // namespace
}  // namespace tile
