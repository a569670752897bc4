// core/language/tile/REFERENCE.md section 1: names, numbers, comments, characters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tile_text.h"

namespace tile::test {
namespace {

using testing::HasSubstr;

Node result_node(const Program& p) {
  const Body& body = std::get<Elementwise>(p.statements.back().what).body;
  return body[body.results[0]];
}

double real_literal(const std::string& text) {
  return result_node(parse_text("function () -> (O) { O = " + text + "; }")).real;
}

TEST(TileLexical, Rule1_1_NamesOfTensorsDimensionsAndIndices) {
  Program p =
      parse_text("function (A_1[Dim_0, N2']) -> (O') { O'[i_0: Dim_0] = +(A_1[i_0, j']); }");
  EXPECT_EQ(p.tensors[0].name, "A_1");
  EXPECT_EQ(p.tensors[0].dims[1].name(), "N2'");
  EXPECT_EQ(p.tensors[1].name, "O'");
  const auto& c = std::get<SymbolicContraction>(p.statements[0].what);
  EXPECT_EQ(c.indices, (std::vector<std::string>{"i_0", "j'"}));
}

TEST(TileLexical, Rule1_1_CaseTellsTensorsFromIndices) {
  EXPECT_THAT(error_of("function (a[N]) -> (O) { O = a; }"), HasSubstr("upper-case"));
  EXPECT_THAT(error_of("function (A[n]) -> (O) { O = A; }"), HasSubstr("upper-case"));
  EXPECT_THAT(error_of("function (A) -> (O) { O = A + i; }"), HasSubstr("'i'"));
  EXPECT_THAT(error_of("function (_A) -> (O) { O = _A; }"), HasSubstr("'_'"));
  EXPECT_THAT(error_of("function (A'') -> (O) { O = A; }"), HasSubstr("'''"));
}

TEST(TileLexical, Rule1_2_Floats) {
  EXPECT_EQ(real_literal("1.5"), 1.5);
  EXPECT_EQ(real_literal("1e-3"), 1e-3);
  EXPECT_EQ(real_literal("2E+10"), 2e10);
  EXPECT_EQ(real_literal("12.25e1"), 122.5);
  EXPECT_EQ(real_literal("-0.5"), -0.5);
  EXPECT_EQ(real_literal("1e-400"), 0.0);
}

TEST(TileLexical, Rule1_2_FloatsNeedDigitsOnBothSides) {
  for (const char* bad : {"1.", ".5", "1.e3", "1.5.2", "2x", "1e", "0x10", "1.0f", "3'"}) {
    std::string text = std::string("function (A) -> (O) { O = A * ") + bad + "; }";
    ASSERT_TRUE(failure_of(text)) << bad;
    EXPECT_EQ(failure_of(text)->code, "lexical") << bad;
  }
}

TEST(TileLexical, Rule1_2_IntegersFit64Bits) {
  auto integer = [](const std::string& text) {
    return result_node(parse_text("function () -> (O) { O = " + text + "; }")).integer;
  };
  EXPECT_EQ(integer("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(integer("-9223372036854775808"), INT64_MIN);
  for (const char* big : {"9223372036854775808", "18446744073709551616", "-9223372036854775809"}) {
    std::string text = std::string("function () -> (O) { O = ") + big + "; }";
    ASSERT_TRUE(failure_of(text)) << big;
    EXPECT_THAT(error_of(text), HasSubstr("64 bits"));
  }
  EXPECT_EQ(failure_of("function () -> (O) { O = 1e400; }")->code, "limit");
  EXPECT_TRUE(failure_of("function (A[9223372036854775808]) -> (O) { O = A; }"));
}

TEST(TileLexical, Rule1_2_Comments) {
  std::string text =
      "// größe\nfunction /* a // b */ (A) -> (O) { /***/ O = A; // } \n /* \n */ } // end";
  EXPECT_EQ(parse_text(text).statements.size(), 1u);
  EXPECT_EQ(place_of_error("function (A) -> (O) {\n O = A; /* open"), "2:9");
  EXPECT_THAT(error_of("function (A) -> (O) { O = A; /* open"), HasSubstr("*/"));
  EXPECT_TRUE(failure_of("function (A) -> (O) { O = A; } /*/"));
}

TEST(TileLexical, Rule1_3_OtherCharactersAreErrorsWithPositions) {
  EXPECT_EQ(place_of_error("function (A) -> (O) {\n  O = A @ 2;\n}"), "2:9");
  EXPECT_THAT(error_of("function (A) -> (O) { O = A $ 2; }"), HasSubstr("'$'"));
  EXPECT_THAT(error_of("function (A) -> (O) { O = Ä; }"), HasSubstr("'Ä'"));
  EXPECT_THAT(error_of(std::string("function\0(A) -> (O) {}", 22)), HasSubstr("0x00"));
  EXPECT_THAT(error_of("function (A) -> (O) { O = A\f; }"), HasSubstr("0x0c"));
}

TEST(TileLexical, Rule1_4_ReservedWords) {
  for (const char* word : {"function", "default", "no_defract"}) {
    std::string name = word;
    std::string index = "function (A[N]) -> (O) { O[" + name + ": N] = +(A[" + name + "]); }";
    EXPECT_TRUE(failure_of(index)) << word;
    EXPECT_THAT(error_of("function (" + name + ") -> (O) { O = 1; }"), HasSubstr("reserved"));
  }
  EXPECT_FALSE(failure_of("function (A[N]) -> (O) { O[functions: N] = +(A[functions]); }"));
}

TEST(TileLexical, Rule1_4_TextIsUtf8) {
  EXPECT_EQ(failure_of("function (A) -> (O) { O = A; } // \xff")->code, "encoding");
  EXPECT_EQ(failure_of("// \xc0\x80\nfunction (A) -> (O) { O = A; }")->code, "encoding");
  EXPECT_EQ(failure_of("// \xed\xa0\x80\nfunction (A) -> (O) { O = A; }")->code, "encoding");
  EXPECT_FALSE(failure_of("// \xf0\x9f\x98\x80\nfunction (A) -> (O) { O = A; }"));
  EXPECT_TRUE(
      failure_of("\xef\xbb\xbf"
                 "function (A) -> (O) { O = A; }"));
}

TEST(TileLexical, LongestSymbolWins) {
  Program p = parse_text("function (A) -> (O) { O = A<-A||A>>2; }");
  EXPECT_EQ(print(p), "function (A) -> (O) {\n  O = A < -A || A >> 2;\n}\n");
}

}  // namespace
}  // namespace tile::test
