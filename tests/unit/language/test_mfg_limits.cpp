// No MFG text may crash, hang, exhaust the stack or grow without bound
// (core/language/tile/REFERENCE.md 8.2).
#include <gtest/gtest.h>

#include "tests/support/mfg_text.h"

namespace tile::test {
namespace {

std::string repeated(const std::string& unit, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += unit;
  return out;
}

std::string code_of(const std::string& text) {
  std::optional<Diagnostic> d = mfg_failure(text);
  return d ? d->code : "parses";
}

TEST(MfgLimits, NestingIsAnError) {
  for (const char* unit : {"(", "-", "!", "2^", "max(1, ", "[", "abs(", "1+(", "1 |> max(2, ",
                           "rsum(0..<2) |i| { ", "ifel(1, 2, ...) ", "1*(2+", "ifel(1, (", "{"}) {
    std::string code = code_of(mfg_pixel(repeated(unit, 100000) + "1"));
    EXPECT_TRUE(code == "limit" || code == "syntax") << unit << " " << code;
  }
  EXPECT_EQ(code_of(mfg_pixel(repeated("(", 100000) + "1" + repeated(")", 100000))), "limit");
}

TEST(MfgLimits, ModerateNestingParses) {
  EXPECT_EQ(code_of(mfg_pixel(repeated("(", 100) + "1" + repeated(")", 100))), "parses");
  EXPECT_EQ(code_of(mfg_pixel(repeated("ifel(x, 1, ...)\n", 100) + "2")), "parses");
}

TEST(MfgLimits, LongChainsAreNotDeep) {
  EXPECT_EQ(code_of(mfg_pixel("x" + repeated(" + y", 10000))), "parses");
  EXPECT_EQ(code_of(mfg_pixel("x" + repeated(" + y", 100000))), "limit");
}

// Functions are written out, and so can double what they are given again and again.
TEST(MfgLimits, ExpansionIsAnError) {
  std::string text = "fn f0 |a: i32| { a*a + 1 }\n";
  for (int i = 1; i < 40; ++i) {
    std::string f = "f" + std::to_string(i - 1);
    text += "fn f" + std::to_string(i) + " |a: i32| { " + f + "(" + f + "(a)) }\n";
  }
  EXPECT_EQ(code_of(text + mfg_pixel("f39(x)")), "limit");
  std::string idle = "fn f0 |a: i32| { a }\n";
  for (int i = 1; i < 60; ++i) {
    std::string f = "f" + std::to_string(i - 1);
    idle += "fn f" + std::to_string(i) + " |a: i32| { " + f + "(" + f + "(a)) }\n";
  }
  EXPECT_EQ(code_of(idle + mfg_pixel("f59(x)")), "limit");
}

TEST(MfgLimits, TuplesAreBounded) {
  std::string text = "let a0 = [1, 2]\n";
  for (int i = 1; i < 40; ++i) {
    std::string a = "a" + std::to_string(i - 1);
    text += "let a" + std::to_string(i) + " = [*" + a + ", *" + a + "]\n";
  }
  EXPECT_EQ(code_of(mfg_pixel(text + "a39.x")), "limit");
}

TEST(MfgLimits, LiteralsAreBounded) {
  std::string text = "def w by [1" + repeated(", 1", 1 << 16) + "]\n" + mfg_pixel("w(0)");
  EXPECT_EQ(code_of(text), "limit");
}

TEST(MfgLimits, LargeLoopsStayLoops) {
  EXPECT_EQ(code_of(mfg_pixel("rsum(0..<2000000000, 0..<2000000000) |i, j| { i*j }")), "parses");
  EXPECT_EQ(code_of(mfg_pixel("rsum(0..<30) |a| { rsum(0..<30) |b| { rsum(0..<30) |c| { "
                              "rsum(0..<30) |d| { a+b*c+d*x } } } }")),
            "parses");
}

TEST(MfgLimits, ManyDefinitions) {
  std::string text;
  for (int i = 0; i < 2000; ++i) {
    text += "@bounds(4)\ndef t" + std::to_string(i) + " |x| { x + " + std::to_string(i) + " }\n";
  }
  EXPECT_EQ(code_of(text), "parses");
}

TEST(MfgLimits, EncodingIsChecked) {
  EXPECT_EQ(code_of("let a = \xff\n"), "encoding");
  EXPECT_EQ(code_of("@title \"光\"\n" + mfg_pixel("1")), "parses");
  EXPECT_EQ(code_of("let 光 = 1\n"), "lexical");
}

}  // namespace
}  // namespace tile::test
