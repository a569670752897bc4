// core/language/tile/REFERENCE.md section 3, what the text decides: index and size expressions, and
// NAME.axis.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/tile_text.h"

namespace tile::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The index expression of V[…] in O[] = +(V[TEXT]).
Expr index(const std::string& text) {
  Program p = parse_text(with_inputs("O[] = +(V[" + text + "]);"));
  return std::get<SymbolicContraction>(p.statements[0].what).accesses[0].index[0];
}
std::string index_error(const std::string& text) {
  return error_of(with_inputs("O[] = +(V[" + text + "]);"));
}
Expr size(const std::string& text) {
  Program p = parse_text(with_inputs("O[i: " + text + "] = +(V[i]);"));
  return std::get<SymbolicContraction>(p.statements[0].what).out_size[0];
}
std::string size_error(const std::string& text) {
  return error_of(with_inputs("O[i: " + text + "] = +(V[i]);"));
}

TEST(TileIndices, Rule3_1_AffineForms) {
  EXPECT_EQ(to_string(index("3*y + 2*j - 1")), "3*y + 2*j - 1");
  EXPECT_EQ(to_string(index("(N - 1) - i")), "N - 1 - i");
  EXPECT_EQ(to_string(index("N*(i + 1)*2")), "N*(i + 1)*2");
  EXPECT_EQ(to_string(index("-i")), "-i");
  EXPECT_EQ(to_string(index("(x - k + 1) / 2")), "(x - k + 1) / 2");
  EXPECT_EQ(to_string(index("i / 2 * N / M")), "i / 2*N / M");
  EXPECT_EQ(to_string(index("5")), "5");
}

TEST(TileIndices, Rule3_1_MultiplicationNeedsAConstantSide) {
  EXPECT_THAT(index_error("i * j"), AllOf(HasSubstr("'i'"), HasSubstr("'j'"), HasSubstr("1:62")));
  EXPECT_THAT(index_error("(i + 1) * 2 * (N - k)"), AllOf(HasSubstr("'i'"), HasSubstr("'k'")));
  EXPECT_THAT(index_error("i * i"), HasSubstr("not linear"));
}

TEST(TileIndices, Rule3_1_DivisionNeedsAConstantDivisor) {
  EXPECT_THAT(index_error("4 / i"), AllOf(HasSubstr("'i'"), HasSubstr("not linear")));
  EXPECT_THAT(index_error("i / (j + 1)"), HasSubstr("'j'"));
}

TEST(TileIndices, Rule3_1_OnlyIntegersDimensionsAndIndices) {
  for (const char* bad : {"i % 2", "min(i, 2)", "1.5 * i", "V[i]", "i < 2", "i ? 1 : 2", "!i",
                          "i && j", "exp(i)", "i << 1"}) {
    std::string error = index_error(bad);
    EXPECT_THAT(error, HasSubstr("[linearity]")) << bad;
  }
  EXPECT_THAT(index_error("V[i]"), HasSubstr("gather"));
  EXPECT_THAT(index_error("A"), HasSubstr("not a dimension"));
}

TEST(TileIndices, Rule3_2_DivisionIsExactInIndicesAndTruncatesInSizes) {
  EXPECT_EQ(index("N / 2").kind(), ExprKind::exact_div);
  EXPECT_EQ(size("N / 2").kind(), ExprKind::trunc_div);
  Program p = parse_text(with_inputs("O[i: N] = +(V[i]), i / 2 < N / 2;"));
  const auto& c = std::get<SymbolicContraction>(p.statements[0].what);
  EXPECT_EQ(c.constraints[0].form.kind(), ExprKind::exact_div);
  EXPECT_EQ(c.constraints[0].bound.kind(), ExprKind::trunc_div);
}

TEST(TileIndices, Rule3_2_Sizes) {
  EXPECT_EQ(to_string(size("min(N, 2*M) + max(1, L)")), "min(N, 2*M) + max(1, L)");
  EXPECT_EQ(to_string(size("N - (M - 1)")), "N - (M - 1)");
  for (const char* bad : {"N % 2", "1.0", "V[1]", "exp(N)", "N < 2", "min(N)", "max(1, 2, 3)"}) {
    EXPECT_THAT(size_error(bad), HasSubstr("parse error")) << bad;
  }
  EXPECT_THAT(size_error("i"), AllOf(HasSubstr("'i'"), HasSubstr("size")));
}

TEST(TileIndices, ExtentsOfTensors) {
  EXPECT_EQ(size("A.1").name(), "A.1");
  EXPECT_EQ(size("T.3").name(), "T.3");
  EXPECT_EQ(index("i + A.00").args()[1].name(), "A.0");
  EXPECT_THAT(size_error("A.2"), AllOf(HasSubstr("'A.2'"), HasSubstr("2 dimensions")));
  EXPECT_THAT(size_error("O.0"), HasSubstr("before it is assigned"));
  EXPECT_THAT(size_error("Q.0"), HasSubstr("undefined tensor 'Q'"));
  EXPECT_THAT(size_error("N.0"), HasSubstr("is a dimension"));
  EXPECT_THAT(size_error("A.0x"), HasSubstr("lexical"));
  Program p = parse_text(with_inputs("O = T / T.0;"));
  EXPECT_THAT(print(p), HasSubstr("O = T / T.0;"));
}

TEST(TileIndices, ExpressionsKeepTheirForm) {
  EXPECT_EQ(to_string(size("2*3 + 0*N")), "2*3 + 0*N");
  EXPECT_EQ(index("a + (b + c)").args().size(), 3u);
}

}  // namespace
}  // namespace tile::test
