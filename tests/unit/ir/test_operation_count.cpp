// Operations of bodies, those inside of folds included.
#include <gtest/gtest.h>

#include "core/ir/analysis/operation_count.h"

namespace tile {
namespace {

// carried = exp(carried) + counter, or with `op` the sum of exp(captured), from 2 to `end`.
Piece piece_with_fold(Op op, const Expr& end) {
  Body region;
  NodeId counter = region.cast(region.argument(0, DType::i64), DType::f32);
  NodeId value =
      region.operation(Op::exp, {region.argument(op == Op::ident ? 1 : 2, DType::f32)}, DType::f32);
  if (op == Op::ident) value = region.operation(Op::add, {value, counter}, DType::f32);
  region.results = {value};
  Piece piece;
  Body& body = piece.body;
  NodeId x = body.load(0, DType::f32);
  Node fold;
  fold.kind = NodeKind::fold;
  fold.op = op;
  fold.slot = 1;
  fold.args = {body.integer(2, DType::i64), body.size(end, DType::i64), x};
  if (op != Op::ident) fold.args.push_back(x);
  fold.region = std::make_shared<const Body>(std::move(region));
  NodeId looped = body.add(std::move(fold));
  NodeId sum = body.component(looped, 0, DType::f32);
  body.results = {body.operation(Op::mul, {sum, sum}, DType::f32)};
  return piece;
}

TEST(OperationCount, OfAFoldIsOfEachIteration) {
  Contraction each;  // that assigns
  EXPECT_EQ(operations_with_folds(each, piece_with_fold(Op::ident, Expr(12))), 10 * 2 + 1);
  EXPECT_EQ(operations_with_folds(each, piece_with_fold(Op::add, Expr(12))), 10 * (1 + 1) + 1)
      << "each iteration adds its value";
  EXPECT_EQ(operations_with_folds(each, piece_with_fold(Op::ident, Expr(1))), 1) << "none runs";
}

TEST(OperationCount, OfAFoldOfUnknownLengthIsNotKnown) {
  Contraction each;  // that assigns
  Piece piece = piece_with_fold(Op::ident, Expr::variable("N"));
  EXPECT_EQ(operations_with_folds(each, piece), std::nullopt);
}

}  // namespace
}  // namespace tile
