// core/language/tile/REFERENCE.md section 8: stages and positions of errors, and rule 8.2: no text
// crashes, hangs, exhausts the stack or allocates without bound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/support/tile_text.h"

namespace tile::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string repeated(std::string_view part, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += part;
  return out;
}

std::string program(const std::string& expression) {
  return "function (A) -> (O) { O = " + expression + "; }";
}

TEST(TileErrors, Rule8_1a_TextHasPositionSourceLineAndCaret) {
  EXPECT_EQ(error_of("function (A[N]) -> (O) {\n  O[i: N] = +(B[i]);\n}"),
            "test.tile:2:15: parse error [name]: undefined tensor 'B'\n"
            " 2 |   O[i: N] = +(B[i]);\n"
            "   |               ^\n");
  EXPECT_EQ(error_of("function (A) -> (O) { /* größe */ O = A * Zz; }"),
            "test.tile:1:43: parse error [name]: undefined tensor 'Zz'\n"
            " 1 | function (A) -> (O) { /* größe */ O = A * Zz; }\n"
            "   |                                           ^~\n");
}

TEST(TileErrors, Rule8_1_AllAreOfStageParse) {
  for (const char* text :
       {"function", "function (A) -> (O) { O = B; }", "@", "\xff",
        "function (A) -> (O) { O = f(A); }", "function (A[N]) -> (O) { O[i: N] = +(A[i*i]); }"}) {
    ASSERT_TRUE(failure_of(text)) << text;
    EXPECT_EQ(failure_of(text)->stage, Stage::parse) << text;
    EXPECT_FALSE(failure_of(text)->code.empty()) << text;
  }
}

TEST(TileLimits, Rule8_2_Nesting) {
  EXPECT_FALSE(failure_of(program(repeated("(", 150) + "A" + repeated(")", 150))));
  for (const char* open : {"(", "-", "~", "exp(", "A ? A : ", "A ? ", "A[", "(A + ", "gather(A,"}) {
    std::optional<Diagnostic> d = failure_of(program(repeated(open, 100'000) + "A"));
    ASSERT_TRUE(d) << open;
    EXPECT_EQ(d->code, "limit") << open;
    EXPECT_GT(d->span.begin, 0u) << open;
  }
}

TEST(TileLimits, Rule8_2_LongChains) {
  EXPECT_FALSE(failure_of(program("A" + repeated(" + A", 900))));
  EXPECT_EQ(failure_of(program("A" + repeated(" + A", 100'000)))->code, "limit");
  std::string index = "function (A[N]) -> (O) { O[] = +(A[i" + repeated(" - i", 100'000) + "]); }";
  EXPECT_EQ(failure_of(index)->code, "limit");
  std::string size = "function (A[N]) -> (O) { O[i: N" + repeated("*N", 100'000) + "] = +(A[i]); }";
  EXPECT_EQ(failure_of(size)->code, "limit");
  std::string deep = "function (A[N]) -> (O) { O[i: N" + repeated(" - N", 900) + "] = +(A[i]); }";
  EXPECT_FALSE(failure_of(deep));
}

TEST(TileLimits, Rule8_2_SizesOfTexts) {
  EXPECT_EQ(failure_of(std::string(5u << 20, ' '))->code, "limit");
  std::string tokens = "function (A) -> (O) { O = A" + repeated(",", 600'000);
  EXPECT_EQ(failure_of(tokens)->code, "limit");
  std::string many;
  for (int i = 0; i < 100'001; ++i) many += "B" + std::to_string(i) + "=A;";
  EXPECT_EQ(failure_of("function (A) -> (B0) {" + many + "}")->code, "limit");
  std::string ranks = "function (A[" + repeated("2,", 100) + "2]) -> (O) { O = A; }";
  EXPECT_EQ(failure_of(ranks)->code, "limit");
}

TEST(TileLimits, Rule8_2_LongTokensAreClippedInTexts) {
  std::string name(100'000, 'a');
  for (const std::string& text :
       {program("B" + name), program(name + "(A)"), program(std::string(100'000, '1')),
        program("1" + name), program("A[" + name + " * " + name + "]")}) {
    std::string error = error_of(text);
    EXPECT_FALSE(error.empty());
    EXPECT_LT(error.size(), 2000u);
  }
}

// Any text ends in a Program or in a Failure of stage parse, and a Program prints and parses back.
void expect_total(const std::string& text) {
  try {
    Program p = parse_text(text);
    Program again = parse_text(print(p));
    EXPECT_EQ(dump(again), dump(p)) << text;
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.diagnostic().stage, Stage::parse) << text;
    EXPECT_LE(failure.diagnostic().span.begin, failure.diagnostic().span.end) << text;
    EXPECT_LE(failure.diagnostic().span.end, text.size()) << text;
    EXPECT_FALSE(render(failure.diagnostic(), *source_of(text)).empty());
  }
}

TEST(TileLimits, Rule8_2_RandomBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 10'000; ++round) {
    std::string text(random() % 60, ' ');
    for (char& c : text) c = static_cast<char>(random() % (round % 2 == 0 ? 256 : 128));
    expect_total(text);
  }
}

TEST(TileLimits, Rule8_2_RandomTokens) {
  const std::vector<std::string> tokens = {"function",   "(",   ")",      "[",
                                           "]",          "{",   "}",      "->",
                                           ",",          ";",   ":",      "=",
                                           "+",          "-",   "*",      "/",
                                           "%",          "<",   ">",      "?",
                                           "==",         "&&",  "!",      "default",
                                           "no_defract", "A",   "B",      "O",
                                           "N",          "M",   "i",      "j",
                                           "1",          "2.5", "exp",    "let",
                                           "in",         "max", "gather", "A.0",
                                           "[[",         "]]",  "as_int", "builtin_softmax"};
  std::mt19937 random(2);
  for (int round = 0; round < 10'000; ++round) {
    std::string text = round % 4 == 0 ? "" : "function (A[N, M], B) -> (O) { O";
    for (size_t n = random() % 40; n > 0; --n) text += " " + tokens[random() % tokens.size()];
    expect_total(text + (round % 3 == 0 ? "; }" : ""));
  }
}

TEST(TileLimits, Rule8_2_MutatedPrograms) {
  const std::string text =
      "function (A[N, M], B[M, L], P) -> (O, Q) { [[hot(i)]] O[2*i, j / 2: N, min(L, 3)] = "
      "+(A[i, k] * exp(B[k, j]) + k), i - k < N default P no_defract; "
      "Q = as_float(O, 32) ? gather(O, shape(A)) : -1.5e3 * O.0; }";
  std::mt19937 random(3);
  for (int round = 0; round < 10'000; ++round) {
    std::string mutated = text;
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      size_t at = random() % mutated.size();
      switch (random() % 3) {
        case 0:
          mutated.erase(at, 1 + random() % 4);
          break;
        case 1:
          mutated.insert(at, 1, static_cast<char>(32 + random() % 95));
          break;
        default:
          mutated[at] = text[random() % text.size()];
      }
      if (mutated.empty()) break;
    }
    expect_total(mutated);
  }
}

}  // namespace
}  // namespace tile::test
