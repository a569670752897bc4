// Warnings: what is surely not meant is said where it stands; what may be meant is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/autodiff/differentiate.h"
#include "core/language/lift/lift.h"
#include "core/language/mfg/mfg.h"
#include "core/language/tile/tile.h"
#include "core/passes/bind/bind.h"
#include "core/warnings/warnings.h"

namespace tile::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Program program_of(const std::string& text) {
  return parse_tile(std::make_shared<const Source>(Source{"w.tile", text}));
}

struct Said {
  std::string code, message, where;
};
std::vector<Said> warnings(const std::string& text, const std::vector<InputType>& types) {
  Program program = program_of(text);
  std::vector<Said> said;
  for (const Diagnostic& d : warnings_of(program, tile::bind(program, types))) {
    EXPECT_EQ(d.severity, Severity::warning);
    EXPECT_FALSE(d.hint.empty()) << d.message;
    said.push_back({d.code, d.message, text.substr(d.span.begin, d.span.end - d.span.begin)});
  }
  return said;
}
std::vector<std::string> codes(const std::string& text, const std::vector<InputType>& types) {
  std::vector<std::string> list;
  for (const Said& s : warnings(text, types)) list.push_back(s.code);
  return list;
}
InputType f32(Shape shape) { return {DType::f32, std::move(shape)}; }

TEST(Warnings, AnInputThatNothingReads) {
  const std::string text = "function (A[N], B[N]) -> (O) { O[i: N] = +(A[i]); }";
  std::vector<Said> said = warnings(text, {f32({3}), f32({3})});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].code, "unread");
  EXPECT_EQ(said[0].where, "B");
  EXPECT_THAT(warnings_of(program_of(text)), ::testing::SizeIs(1));
}

TEST(Warnings, TheFirstOfVeryMany) {
  std::string inputs = "A[N]";
  for (int i = 0; i < 1000; ++i) inputs += ", B" + std::to_string(i) + "[N]";
  const std::string text = "function (" + inputs + ") -> (O) { O[i: N] = +(A[i]); }";
  std::vector<Said> said = warnings(text, std::vector<InputType>(1001, f32({3})));
  ASSERT_EQ(said.size(), 200U);
  EXPECT_EQ(said[0].where, "B0");
  EXPECT_EQ(said[199].where, "B199");
}

TEST(Warnings, BroadcastingThatFitsByChance) {
  const std::string sums = "function (A[N, M]) -> (O) { S[i: N] = +(A[i, j]); O = A / S; }";
  std::vector<Said> said = warnings(sums, {f32({4, 4})});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].code, "aligned");
  EXPECT_EQ(said[0].where, "S");
  EXPECT_EQ(said[0].message,
            "S[N] is aligned with the last dimension of A[N, M], whose size is the same by chance");
  // What says where it is aligned, what is aligned as it is named, and what has one element.
  for (const char* text : {"function (A[N, M]) -> (O) { S[i, 0: N, 1] = +(A[i, j]); O = A / S; }",
                           "function (A[N, M]) -> (O) { S[j: M] = +(A[i, j]); O = A / S; }",
                           "function (A[N, N]) -> (O) { S[i: N] = +(A[i, j]); O = A / S; }",
                           "function (A[N, M], B[K]) -> (O) { O = A + B; }",
                           "function (A[N, M]) -> (O) { O = A + transpose(A); }"}) {
    std::vector<InputType> types(program_of(text).inputs.size(), f32({4}));
    types[0] = f32({4, 4});
    EXPECT_THAT(codes(text, types), IsEmpty()) << text;
  }
  EXPECT_THAT(codes(sums, {f32({1, 1})}), IsEmpty());
}

TEST(Warnings, AnOutputWithoutElements) {
  const std::string text = "function (A[N]) -> (O) { O[i: N / 4] = +(A[4 * i + j]), j < 4; }";
  EXPECT_THAT(codes(text, {f32({3})}), ElementsAre("empty"));
  EXPECT_THAT(codes(text, {f32({4})}), IsEmpty());
  EXPECT_THAT(codes(text, {f32({0})}), IsEmpty());  // nothing in, nothing out
}

TEST(Warnings, QuotientsOfLiteralsInOtherLanguages) {
  auto said_of = [](Program program) {
    std::vector<std::string> codes;
    for (const Diagnostic& d : warnings_of(program)) codes.push_back(d.code);
    return codes;
  };
  auto filter = [&](const std::string& weight) {
    std::string text = "def result_f32 |x, y| { input_f32(x, y)*f32(" + weight + ") }";
    return said_of(parse_mfg(std::make_shared<const Source>(Source{"w.mfg", text})));
  };
  auto map = [&](const std::string& weight) {
    std::string text = "val f = fun(ArrayType(Float, N), a => Map(v => v * " + weight + ") $ a)";
    return said_of(parse_lift(std::make_shared<const Source>(Source{"w.lift", text})));
  };
  EXPECT_THAT(filter("1/3"), ElementsAre("truncated"));
  EXPECT_THAT(map("(1/3)"), ElementsAre("truncated"));
  for (const char* weight : {"4/2", "1.0/3.0", "0/3"}) EXPECT_THAT(filter(weight), IsEmpty());
  for (const char* weight : {"1/3", "(4/2)", "(1.0/3.0)"}) EXPECT_THAT(map(weight), IsEmpty());
}

TEST(Warnings, AnInputThatIsThereForItsSize) {
  EXPECT_THAT(
      codes("function (A[N], L[M]) -> (O) { O[i: M] = +(A[i + k]), k < 2; }", {f32({5}), f32({4})}),
      IsEmpty());
  EXPECT_THAT(codes("function (A, L) -> (O) { O = sum_to(A, L); }", {f32({2, 3}), f32({3})}),
              IsEmpty());
}

TEST(Warnings, AStatementThatNoOutputNeeds) {
  const std::string text =
      "function (A[N]) -> (O) {\n  S[] = +(A[i]);\n  T = A * S;\n  M[] = >(A[i]);\n  O = A - M;\n}";
  std::vector<Said> said = warnings(text, {f32({3})});
  ASSERT_EQ(said.size(), 2U);
  EXPECT_EQ(said[0].code + said[1].code, "unreadunread");
  EXPECT_EQ(said[0].where[0], 'S');
  EXPECT_EQ(said[0].message, "no output needs S");
  EXPECT_EQ(said[1].where[0], 'T');
  Program program = program_of("function (A[N]) -> (O) { O[] = +(A[i] * A[i]); }");
  EXPECT_THAT(warnings_of(differentiate(program, "O", {"A"})), IsEmpty());
}

TEST(Warnings, AStatementThatIsThereForItsSize) {
  EXPECT_THAT(
      codes("function (A, B) -> (O) { L = B * 2; O = sum_to(A, L); }", {f32({2, 3}), f32({3})}),
      IsEmpty());
}

// "CODE: WHERE" of each warning of an MFG program.
std::vector<std::string> said_of_filter(const std::string& text) {
  std::vector<std::string> said;
  for (const Diagnostic& d :
       warnings_of(parse_mfg(std::make_shared<const Source>(Source{"w.mfg", text})))) {
    said.push_back(d.code + ": " + text.substr(d.span.begin, d.span.end - d.span.begin));
  }
  return said;
}

TEST(Warnings, AValueOfAFilterThatNothingReads) {
  EXPECT_THAT(said_of_filter("let gain = 2.0\n"
                             "let spare = gain + 1.0\n"
                             "def result_f32 |x, y| {\n"
                             "  let a = input_f32(x, y)\n"
                             "  let [b, c] = [a, a]\n"
                             "  gain * a\n}\n"),
              ElementsAre("unread: let spare = gain + 1.0", "unread: let [b, c] = [a, a]"));
}

// A name that is hidden is another one's, one name of a tuple is enough, and samplers, functions
// and sizes read as well.
TEST(Warnings, WhereTheValuesOfAFilterAreRead) {
  EXPECT_THAT(said_of_filter("let a = 1.0\n"
                             "def result_f32 |x, y| {\n"
                             "  let a = input_f32(x, y)\n"
                             "  rsum(0..<3) |a| { f32(a) }\n}\n"),
              ElementsAre("unread: let a = 1.0", "unread: let a = input_f32(x, y)"));
  EXPECT_THAT(said_of_filter("let s = sampler<input_f32>(address=.ClampToEdge)\n"
                             "let n = 4\n"
                             "fn twice |v: f32| {\n  let w = v\n  w + w\n}\n"
                             "@bounds(n, n) def result_f32 |x, y| {\n"
                             "  let [u, v, _] = [s(x, y), 1.0, 2.0]\n"
                             "  twice(u)\n}\n"),
              IsEmpty());
}

TEST(Warnings, OtherLanguagesHaveNoUnreadNames) {
  auto source = std::make_shared<const Source>(
      Source{"w.lift", "val f = fun(ArrayType(Float, N), x => Map(id) $ x)"});
  EXPECT_THAT(warnings_of(parse_lift(source)), IsEmpty());
}

// The rotation of a transformer's positions, as people write it first.
TEST(Warnings, BothArmsOfAChoiceBoundThePoints) {
  const std::string text =
      "function (Q[S, D]) -> (O) {\n"
      "  O[s, d: S, D] = +(d < D / 2 ? 0 - Q[s, d + D / 2] : Q[s, d - D / 2]);\n}";
  std::vector<Said> said = warnings(text, {f32({4, 8})});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].code, "empty");
  EXPECT_EQ(said[0].where, "Q[s, d - D / 2]");
  EXPECT_THAT(said[0].message, HasSubstr("every cell of O is 0"));
}

TEST(Warnings, AConditionThatIsNeverTrue) {
  const std::string text = "function (A[N]) -> (O) { O[i: N] = +(A[i]), i - N < 1; }";
  std::vector<Said> said = warnings(text, {f32({6})});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].code, "empty");
  EXPECT_EQ(said[0].where.substr(0, 5), "i - N");
}

TEST(Warnings, AConditionThatIsAlwaysTrue) {
  const std::string always = "function (A[N, N]) -> (O) { O[i: N] = +(A[i, j]), i + j < 2 * N; }";
  EXPECT_THAT(codes(always, {f32({6, 6})}), ElementsAre("always"));
  // Of one row it holds by chance.
  EXPECT_THAT(codes(always, {f32({1, 1})}), IsEmpty());
  EXPECT_THAT(
      codes("function (A[N, N]) -> (O) { O[i: N] = +(A[i, j]), i - j < N; }", {f32({6, 6})}),
      IsEmpty());
  EXPECT_THAT(codes("function (A[N]) -> (O) { O[i: N] = +(A[i]), i < N; }", {f32({6})}), IsEmpty());
}

TEST(Warnings, CellsThatNoPointReaches) {
  std::vector<Said> said = warnings("function (A[N]) -> (O) { O[i: 10] = +(A[i]); }", {f32({5})});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].code, "unreached");
  EXPECT_THAT(said[0].message, HasSubstr("indices 5 to 9 in dimension 0"));
  EXPECT_THAT(codes("function (A[N]) -> (O) { O[0: 3] = +(A[i]); }", {f32({5})}),
              ElementsAre("unreached"));
  said = warnings("function (A[N]) -> (O) { O[i: N] = =(A[i - 1] + A[i + 1]); }", {f32({5})});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_THAT(said[0].message, HasSubstr("with index 0 and index 4 in dimension 0"));
  // Padding and strides leave cells out on purpose, a default fills them.
  EXPECT_THAT(codes("function (A[N]) -> (O) { O[i + 1: N + 2] = +(A[i]); }", {f32({5})}),
              IsEmpty());
  EXPECT_THAT(codes("function (A[N]) -> (O) { O[2 * i: 2 * N] = +(A[i]); }", {f32({5})}),
              IsEmpty());
  EXPECT_THAT(
      codes("function (A[N], D[M]) -> (O) { O[i: M] = +(A[i]) default D; }", {f32({5}), f32({10})}),
      IsEmpty());
}

// Who expects a quotient that is rounded gets zeros between.
TEST(Warnings, CellsWhoseQuotientsAreFractions) {
  const std::string repeated = "function (A[N]) -> (O) { O[i: 2 * N] = +(A[i / 2]); }";
  std::vector<Said> said = warnings(repeated, {f32({5})});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].code, "unreached");
  EXPECT_THAT(said[0].message,
              HasSubstr("with index 1 (and others between) and index 9 in dimension 0"));
  said = warnings("function (A[N], B[M]) -> (O) { O[i: M] = =(A[i / 2] * B[i]); }",
                  {f32({3}), f32({5})});
  ASSERT_EQ(said.size(), 1U) << "both ends are reached";
  EXPECT_THAT(said[0].message, HasSubstr("with index 1 (and others between) in dimension 0"));
  // The taps of a transposed convolution reach all cells, each its own.
  EXPECT_THAT(codes("function (A[N], K[4]) -> (O) { O[i: 2 * N] = +(A[(i + 1 - k) / 2] * K[k]); }",
                    {f32({5}), f32({4})}),
              IsEmpty());
  EXPECT_THAT(codes("function (A[N]) -> (O) { O[2 * i + k: 2 * N] = =(A[i]), k < 2; }", {f32({5})}),
              IsEmpty());
}

TEST(Warnings, SumsOfNarrowIntegers) {
  const std::string sum = "function (A[N]) -> (O) { O[] = +(A[i]); }";
  EXPECT_THAT(codes(sum, {{DType::u8, {2}}}), ElementsAre("overflow"));
  EXPECT_THAT(codes(sum, {{DType::u8, {1}}}), IsEmpty());
  EXPECT_THAT(codes(sum, {{DType::i32, {1000}}}), IsEmpty());
  EXPECT_THAT(codes(sum, {f32({1000})}), IsEmpty());
  EXPECT_THAT(codes("function (A[N]) -> (O) { O[] = +(as_int(A[i], 32)); }", {{DType::u8, {1000}}}),
              IsEmpty());
  EXPECT_THAT(codes("function (A[N]) -> (O) { O[] = +(as_int(A[i], 32) * as_int(A[i], 32)); }",
                    {{DType::u8, {40000}}}),
              ElementsAre("overflow"));
}

TEST(Warnings, WhatDifferentiationMakesIsNotTheAuthors) {
  Program program = program_of("function (A[N], B[N]) -> (O) { O[i: 10] = +(A[i]); }");
  EXPECT_THAT(warnings_of(differentiate(program, "O", {"A"})), IsEmpty());
}

TEST(Warnings, EmptyTensorsAreNoSurprise) {
  EXPECT_THAT(codes("function (A[N]) -> (O) { O[i: 10] = +(A[i]); }", {f32({0})}), IsEmpty());
}

TEST(Warnings, AreRenderedAsSuch) {
  Program program = program_of("function (A[N], B[N]) -> (O) { O[i: N] = +(A[i]); }");
  Diagnostic d = warnings_of(program).at(0);
  EXPECT_THAT(render(d, *program.source), HasSubstr("w.tile:1:17: parse warning [unread]"));
  EXPECT_THAT(render_json(d, *program.source), HasSubstr("{\"severity\":\"warning\""));
}

// Programs, and those who read them, write other letters than ASCII's.
TEST(Warnings, AreJsonWithTheCharactersThatTheyHave) {
  Program program = program_of("function (A[N], B[N]) -> (O) { O[i: N] = +(A[i]); } // größer");
  std::string json = render_json(warnings_of(program).at(0), *program.source);
  EXPECT_THAT(json, HasSubstr("größer"));
  Diagnostic broken{Stage::run,      "file", "name \xff\xe2\x80\"",
                    "as_int(…, 32)", {},     Severity::error};
  json = render_json(broken, *program.source);
  EXPECT_THAT(json, HasSubstr(R"j("message":"name \u00ff\u00e2\u0080\"","hint":"as_int(…, 32)")j"));
}

TEST(Warnings, PositionsOfGatherAndScatterThatAreAllOutside) {
  std::vector<InputType> types{{DType::f32, {5, 2}}};
  auto of = [&](const std::string& statements) {
    return warnings("function (A[N, M]) -> (O) { " + statements + " }", types);
  };
  std::vector<Said> said = of("O = gather(A, 7);");
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].code, "index");
  EXPECT_EQ(said[0].where, "7");
  EXPECT_EQ(said[0].message, "the index 7 is outside of 0 to 4 and taken as the nearest of these");
  EXPECT_EQ(of("O = gather(A, 0 - 1);").size(), 1U) << "the last row of other languages";
  EXPECT_EQ(of("I = N; O = gather(A, I);").size(), 1U) << "a size";
  said = of("I = N; O = scatter(A, I, 3);");
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].message, "the index 5 is outside of 0 to 2 and taken as the nearest of these");
  for (const char* meant :
       {"O = gather(A, 4);", "O = gather(A, N - 1);", "I = index(A, 0) + 1; O = gather(A, I);",
        "I = as_int(A, 32); O = gather(A, I);"}) {
    EXPECT_THAT(of(meant), IsEmpty()) << meant;
  }
}

TEST(Warnings, QuotientsOfWholeNumbersThatAreZero) {
  std::vector<InputType> types{{DType::f32, {2, 3}}};
  std::vector<Said> said = warnings("function (A[M, N]) -> (B) { B = A * (1 / N); }", types);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].code, "truncated");
  EXPECT_EQ(said[0].message, "this divides whole numbers: 1 / N is 0 where N is larger");
  EXPECT_THAT(codes("function (A[M, N]) -> (B) { B[i: M] = +(2 / 3 * A[i, j]); }", types),
              ElementsAre("truncated"));
  for (const char* meant :
       {"A * (1.0 / N)", "A / N", "A * (N / 2)", "A * (3 / 2)", "A * (0 / N)"}) {
    std::string text = std::string("function (A[M, N]) -> (B) { B = ") + meant + "; }";
    EXPECT_THAT(codes(text, types), IsEmpty()) << meant;
  }
}

// As in the angles of rotary embeddings.
TEST(Warnings, AFractionOfIndicesThatIsZero) {
  auto said_of = [](const std::string& value, int64_t length = 8) {
    return warnings("function (A[N]) -> (B) { B[k: N / 2] = =(A[k] * " + value + "); }",
                    {f32({length})});
  };
  for (const char* angle : {"pow(10000.0, -2 * k / N)", "exp(-(2 * k / N))", "(k / N)"}) {
    std::vector<Said> said = said_of(angle);
    ASSERT_EQ(said.size(), 1U) << angle;
    EXPECT_EQ(said[0].code, "truncated");
    EXPECT_THAT(said[0].where, HasSubstr("k / N"));
  }
  for (const char* meant : {"(2.0 * k / N)", "(as_float(k, 32) / N)", "(3 * k / N)", "(k / 2)",
                            "(k / N == 0 ? 1.0 : 2.0)", "(k * 0 / N)"}) {
    EXPECT_THAT(said_of(meant), IsEmpty()) << meant;
  }
}

}  // namespace
}  // namespace tile::test
