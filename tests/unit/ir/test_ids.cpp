// Ids: none is before all others and names nothing; vectors and forms are indexed by their own.
#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

#include "core/ir/bound.h"
#include "core/kernel/kernel.h"

namespace tile {
namespace {

TEST(Ids, NoneIsBeforeAllOthers) {
  IteratorId none, first(0);
  EXPECT_FALSE(none.valid());
  EXPECT_TRUE(first.valid());
  EXPECT_LT(none, first);
  EXPECT_EQ(to_string(none), "-1");
  IteratorId second = first;
  ++second;
  EXPECT_EQ(second, IteratorId(1));
  --second;
  EXPECT_EQ(second, first);
}

TEST(Ids, KindsDoNotMix) {
  EXPECT_FALSE((std::is_convertible_v<IteratorId, RowId>));
  EXPECT_FALSE((std::is_constructible_v<IteratorId, StageId>));
  EXPECT_FALSE((std::is_convertible_v<int, IteratorId>));
  EXPECT_FALSE((std::is_convertible_v<IteratorId, int>));
}

TEST(Ids, VectorsAreIndexedByTheirOwn) {
  IterationBox box{4, 5};
  EXPECT_EQ(box[IteratorId(1)], 5);
  EXPECT_TRUE(box.contains(IteratorId(1)));
  EXPECT_FALSE(box.contains(IteratorId(2)));
  EXPECT_FALSE(box.contains(IteratorId()));
  EXPECT_EQ(box.add(6), IteratorId(2));
  std::vector<IteratorId> all;
  for (IteratorId u : box.ids()) all.push_back(u);
  EXPECT_EQ(all, (std::vector<IteratorId>{IteratorId(0), IteratorId(1), IteratorId(2)}));
}

TEST(Ids, FormsAndPiecesKnowTheirIterators) {
  Affine form = iterator_affine(IteratorId(1));
  EXPECT_EQ(form.coefficient(IteratorId(1)), Rational(1));
  EXPECT_EQ(form.coefficient(IteratorId(0)), Rational(0));
  EXPECT_EQ(form.coefficient(IteratorId(7)), Rational(0));
  Piece piece;
  piece.parallel_dims = 1;
  EXPECT_TRUE(piece.is_parallel(IteratorId(0)));
  EXPECT_FALSE(piece.is_parallel(IteratorId(1)));
  EXPECT_FALSE(piece.is_parallel(IteratorId()));
}

}  // namespace
}  // namespace tile
