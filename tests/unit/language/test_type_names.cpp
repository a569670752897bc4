// Names that other languages give element types.
#include <gtest/gtest.h>

#include "core/language/type_names.h"

namespace tile {
namespace {

TEST(TypeNames, OfOtherLanguagesAreKnown) {
  EXPECT_EQ(foreign_dtype("float32"), DType::f32);
  EXPECT_EQ(foreign_dtype("int"), DType::i32);
  EXPECT_EQ(foreign_dtype("UInt8"), DType::u8);
  EXPECT_EQ(foreign_dtype("float8_e4m3fn"), DType::f8e4m3);
  EXPECT_EQ(foreign_dtype("BF16"), DType::bf16) << "in another case";
  EXPECT_EQ(foreign_dtype("f32"), std::nullopt) << "it is the type's own name";
  EXPECT_EQ(foreign_dtype("complex64"), std::nullopt);
  EXPECT_EQ(foreign_dtype(""), std::nullopt);
}

TEST(TypeNames, HintsSayHowTheyAreWritten) {
  EXPECT_EQ(dtype_hint("double"), "double is written f64 here");
  EXPECT_EQ(dtype_hint("none"), "");
  EXPECT_EQ(dtype_hint("f32"), "");
}

}  // namespace
}  // namespace tile
