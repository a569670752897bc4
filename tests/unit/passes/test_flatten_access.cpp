// Indices that split one position read a view in fewer dimensions (lift rules 3, 5: no division is
// left where the elements stand in a row).
#include <gtest/gtest.h>

#include "core/language/lift/lift.h"
#include "core/passes/bind/bind.h"

namespace tile {
namespace {

// The only load of the only statement.
struct Bound {
  BoundProgram program;
  const Access& load() const {
    return std::get<Contraction>(program.statements.at(0)).pieces.at(0).loads.at(0);
  }
  const BoundTensor& tensor() const { return program.tensors[load().tensor]; }
};
Bound bound(const std::string& body, const Shape& shape) {
  std::string type = "Float";
  const char* names[] = {"N", "M", "K"};
  for (size_t d = shape.size(); d-- > 0;) type = "ArrayType(" + type + ", " + names[d] + ")";
  auto source = std::make_shared<const Source>(
      Source{"test.lift", "val f = fun(" + type + ", x => " + body + ")"});
  Bound b{tile::bind(parse_lift(source), {{DType::f32, shape}})};
  verify(b.program);
  EXPECT_EQ(b.program.statements.size(), 1u);
  return b;
}

TEST(FlattenAccess, AJoinIsTheElementsInARow) {
  Bound b = bound("Join() $ x", {5, 7});
  EXPECT_EQ(b.tensor().shape, (Shape{35}));
  EXPECT_TRUE(b.tensor().view_of.has_value());
  EXPECT_EQ(b.load().index.at(0).affine, iterator_affine(0));
}

TEST(FlattenAccess, InnerDimensionsAlone) {
  Bound b = bound("Map(Join()) $ x", {3, 4, 5});
  EXPECT_EQ(b.tensor().shape, (Shape{3, 20}));
  EXPECT_EQ(b.load().index.at(1).affine, iterator_affine(1));
  Bound all = bound("Join() o Join() $ x", {3, 4, 5});
  EXPECT_EQ(all.tensor().shape, (Shape{60}));
}

TEST(FlattenAccess, NotWhereAnIndexIsAffineOrPermuted) {
  EXPECT_FALSE(bound("Transpose() $ x", {5, 7}).tensor().view_of.has_value());
  EXPECT_FALSE(bound("Join() o Transpose() $ x", {5, 7}).tensor().view_of.has_value());
  EXPECT_FALSE(bound("Gather(stride(5)) o Join() $ x", {5, 7}).tensor().view_of.has_value());
}

}  // namespace
}  // namespace tile
