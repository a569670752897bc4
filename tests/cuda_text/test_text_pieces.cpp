// Texts with named pieces, which kernels on tensor cores are printed from.
#include <gtest/gtest.h>

#include "backends/cuda/matrix/text_pieces.h"
#include "core/support/diagnostic.h"

namespace tile::cuda {
namespace {

TEST(TextPieces, ArePutWhereTheyAreNamed) {
  TextPieces pieces;
  pieces.set("sum", "total");
  pieces.set("rows", 64);
  EXPECT_EQ(pieces.fill("float $sum[$rows]; // ${rows}x"), "float total[64]; // 64x");
  EXPECT_EQ(pieces.fill("$sum"), "total");
  EXPECT_EQ(pieces.fill(""), "");
}

TEST(TextPieces, AreReplacedAndNotReadAgain) {
  TextPieces pieces;
  pieces.set("a", "$b");
  pieces.set("b", "first");
  pieces.set("b", "second");
  EXPECT_EQ(pieces.fill("$a $b"), "$b second");
}

TEST(TextPieces, ThatAreMissingAreFound) {
  TextPieces pieces;
  pieces.set("row", "r");
  EXPECT_THROW(pieces.fill("$rows"), InternalError);
  EXPECT_THROW(pieces.fill("costs 5$"), InternalError);
}

}  // namespace
}  // namespace tile::cuda
